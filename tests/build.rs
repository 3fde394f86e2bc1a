//! Lists the cases of the driver suite for `conformance/mod.rs`: the functions of each file that
//! take nothing but a store under test.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Files whose cases are for single stores.
const SINGLE_STORE: [&str; 2] = ["model", "pools"];

fn main() {
    let (folder, model) = ("conformance/cases", "conformance/model/mod.rs");
    let entries = fs::read_dir(folder).expect("the folder exists");
    let files = entries.map(|entry| entry.expect("the folder is readable").path()).filter(|path| path.is_file());
    let [mut every, mut single] = [Vec::new(), Vec::new()];
    for file in files.chain([model.into()]) {
        let (module, cases) = (module(&file), cases(&file));
        if !cases.is_empty() {
            let list = if SINGLE_STORE.contains(&module) { &mut single } else { &mut every };
            list.push(format!("{module}: [{}]", cases.join(", ")));
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets the variable"));
    let text = macro_of("every_case", &every) + &macro_of("single_store_case", &single);
    fs::write(out.join("cases.rs"), text).expect("the folder is writable");
    println!("cargo:rerun-if-changed={folder}\ncargo:rerun-if-changed={model}");
}

/// Returns a macro that takes drivers and runs these cases with each of them.
fn macro_of(name: &str, cases: &[String]) -> String {
    let suite = format!("suite! {{ drivers: [$($driver),+], cases: {{ {} }} }}", cases.join(", "));
    format!("macro_rules! {name} {{ ($($driver:ident),+) => {{ {suite} }} }}\n")
}

/// Returns the name of the module in a file.
fn module(file: &Path) -> &str {
    let named = if file.ends_with("mod.rs") { file.parent() } else { Some(file) };
    named.and_then(Path::file_stem).and_then(|name| name.to_str()).expect("a file has a name")
}

/// Returns the names of the cases in a file.
fn cases(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("the file is readable");
    let functions = text.split("\npub(in crate::conformance) async fn ").skip(1);
    let case = |function: &str| {
        let (name, rest) = function.split_once('(')?;
        let (parameters, _body) = rest.split_once(')')?;
        (parameters.trim().trim_end_matches(',') == "subject: &Subject").then(|| name.to_owned())
    };
    functions.filter_map(case).collect()
}
