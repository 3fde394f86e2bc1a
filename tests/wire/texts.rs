//! Generated JSON texts such as clients might send: unusual spaces, escapes and numbers, repeated
//! keys, and malformed texts.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Generates texts of arbitrary values.
pub(super) fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(vec!["null", "true", "false", "[]", "{}", "[ ]", "{\n}"]).prop_map(str::to_owned),
        number(),
        string(),
    ];
    leaf.prop_recursive(5, 48, 8, |inner| {
        prop_oneof![
            4 => array(inner.clone(), 0..8),
            4 => object(key(), inner.clone(), 0..8),
            1 => array(number(), 13..19),
            1 => object(string(), number(), 13..19),
        ]
    })
}

/// Generates texts of whole posts, most of which the API would accept.
pub(super) fn post() -> impl Strategy<Value = Vec<u8>> {
    let seconds = prop_oneof![20 => select(vec!["60", "0", "-1", "true"]).prop_map(str::to_owned), 1 => value()];
    let body = (spaced(Just("\"body\"".to_owned())), value()).prop_map(|(key, value)| format!("{key}:{value}"));
    let field = prop_oneof![
        (name(&["body", "b\\u006fdy", "x"]), value()),
        (name(&["ttl", "delay", "tenant", "tt\\u006c"]), seconds),
    ];
    let fields = (vec(field, 0..5), body, any::<Index>());
    let message = fields.prop_map(|(fields, body, at)| {
        let mut fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
        fields.insert(at.index(fields.len() + 1), body);
        format!("{{{}}}", fields.join(","))
    });
    let messages = array(prop_oneof![30 => message, 1 => value()], 1..4).boxed();
    let document = prop_oneof![
        8 => messages.clone().prop_map(|messages| format!("{{\"messages\":{messages}}}")),
        4 => object(name(&["messages", "messages", "x"]), prop_oneof![12 => messages, 1 => value()], 0..4),
        1 => value(),
    ];
    (document, prop::option::weighted(0.2, (any::<Index>(), 0..4_u8, any::<u8>()))).prop_map(|(text, change)| {
        let mut text = text.into_bytes();
        if let Some((at, kind, byte)) = change {
            let at = at.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text.insert(at + 1, byte),
                2 => drop(text.remove(at)),
                _ => text.truncate(at),
            }
        }
        text
    })
}

fn array(element: impl Strategy<Value = String>, size: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    vec(spaced(element), size).prop_map(|elements| format!("[{}]", elements.join(",")))
}

fn object(
    key: impl Strategy<Value = String>,
    value: impl Strategy<Value = String>,
    size: std::ops::Range<usize>,
) -> impl Strategy<Value = String> {
    let entry = (spaced(key), spaced(value)).prop_map(|(key, value)| format!("{key}:{value}"));
    vec(entry, size).prop_map(|entries| format!("{{{}}}", entries.join(",")))
}

/// Generates keys of which many are equal, some only after unescaping.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![name(&["", "a", "b", "\\u0061", "aa"]), string()]
}

fn name(names: &[&'static str]) -> impl Strategy<Value = String> {
    select(names.to_vec()).prop_map(|name| format!("\"{name}\""))
}

fn spaced(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let space = || select(vec!["", "", "", "", " ", "\n", "\t\r "]);
    (space(), text, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}"))
}

fn string() -> impl Strategy<Value = String> {
    let escaped = |text: String| serde_json::to_string(&text).unwrap().trim_matches('"').to_owned();
    let plain = select(vec!["a", "'", "/", "\u{7f}", "é", "€", "\u{2028}", "😀", "01234567890123456789012345678901"]);
    let escape = select(vec![
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\f",
        "\\n",
        "\\r",
        "\\t",
        "\\u0000",
        "\\u00e9",
        "\\uFFFF",
        "\\ud83d\\ude00",
    ]);
    let broken = select(vec!["\\ud800", "\\ude00", "\\ud83d\\u0041", "\\x41", "\\u12", "\n", "\u{0}", "\"", "\\"]);
    let part = prop_oneof![
        300 => any::<char>().prop_map(move |character| escaped(character.to_string())),
        300 => plain.prop_map(str::to_owned),
        300 => escape.prop_map(str::to_owned),
        1 => broken.prop_map(str::to_owned),
    ];
    vec(part, 0..6).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn number() -> impl Strategy<Value = String> {
    // Powers of two at which `MessagePack` or the range of integers has a boundary.
    let borders = [1_i128 << 5, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 2];
    let near_border = (select(borders.to_vec()), -1..=1_i128, any::<bool>());
    let odd = ["-0", "-0.0", "0e0", "1.0", "1E2", "5e-324", "1e-400", "0.1", "9223372036854775808.0", "1e19", "-1e300"];
    let beyond = [
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "123456789012345678901234567890",
    ];
    let broken = ["1e400", "-1e400", "01", "+1", "1.", ".5", "0x1", "NaN", "Infinity", "-", "1-2", "1e", "--1"];
    prop_oneof![
        400 => near_border.prop_map(|(border, by, negative)| (if negative { -border + by } else { border + by }).to_string()),
        200 => any::<i64>().prop_map(|integer| integer.to_string()),
        200 => any::<f64>().prop_filter("JSON has no other", |f| f.is_finite()).prop_map(|f| format!("{f:?}")),
        200 => "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
        200 => select(odd.to_vec()).prop_map(str::to_owned),
        1 => select(beyond.to_vec()).prop_map(str::to_owned),
        1 => select(broken.to_vec()).prop_map(str::to_owned),
    ]
}
