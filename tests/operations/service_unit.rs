//! The systemd unit is valid and hardened. `faults::service_manager` tests the notifications.

use std::fs;

use super::{read, succeed};

const UNIT: &str = "ops/sukkal.service";
/// Maximum exposure of the unit, from 0 (none) to 100.
const EXPOSURE_MAX: &str = "15";

#[test]
fn systemd_accepts_the_credentials_and_they_are_options() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("sukkal.service");
    let text =
        read(UNIT).replace("\n#LoadCredential=", "\nLoadCredential=").replace("\n#Environment=", "\nEnvironment=");
    let binary = support::sukkal::binary().to_str().unwrap();
    fs::write(&unit, text.replace("/usr/local/bin/sukkal", binary)).unwrap();

    assert_eq!(succeed("systemd-analyze", &["verify", unit.to_str().unwrap()]).trim(), "");
    let values = text.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once("=%d/"));
    let values: Vec<(&str, &str)> = values.collect();
    assert_eq!(values.len(), 4, "{values:?}");
    for (variable, file) in values {
        assert!(text.contains(&format!("\nLoadCredential={file}:/etc/sukkal/")), "{file}");
        let option = variable.strip_prefix("SUKKAL_").unwrap().to_lowercase();
        let (section, name) = option.split_once("__").unwrap();
        let options: toml::Table = read("config/default.toml").parse().unwrap();
        assert!(options[section].get(name).is_some(), "{variable}");
    }
}

#[test]
fn systemd_accepts_the_unit_and_rates_it_as_hardened() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("sukkal.service");
    // systemd checks that the program exists.
    let binary = support::sukkal::binary().to_str().unwrap();
    fs::write(&unit, read(UNIT).replace("/usr/local/bin/sukkal", binary)).unwrap();
    let unit = unit.to_str().unwrap();

    let said = succeed("systemd-analyze", &["verify", unit]);
    assert_eq!(said.trim(), "");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    succeed("systemd-analyze", &["security", "--offline=true", "--no-pager", &threshold, unit]);
}

#[test]
fn the_unit_and_the_program_agree() {
    let (unit, options) = (read(UNIT), read("config/default.toml"));
    let number = |text: &str, key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key} is missing"));
        line.trim_start_matches(['=', ' ']).parse().unwrap()
    };

    assert!(unit.contains("Type=notify\n"));
    assert!(number(&unit, "TimeoutStopSec") > number(&options, "drain_timeout"));
    // src/descriptors.rs reserves some for the store.
    assert!(number(&unit, "LimitNOFILE") >= number(&options, "max_connections") + 256);
    assert!(unit.contains("RestartPreventExitStatus=2\n"), "a wrong option ends the program with 2");
}
