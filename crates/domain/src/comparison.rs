//! Compares stored JSON, `MessagePack` that was converted from it, without building a tree.
//!
//! Values are equal as in a tree: the order of keys does not matter, `0.0` equals `-0.0`, and `1`
//! does not equal `1.0`.

use super::msgpack::{Reader, Token};

/// Returns whether `found` is an object that has all keys of the object `wanted`, with equal
/// values. The keys of an object must be distinct.
///
/// The time is proportional to the size of `found`, and the memory to the number of keys in
/// `wanted`.
pub(super) fn has_entries(found: &[u8], wanted: &[u8]) -> bool {
    let (mut found, mut wanted) = (Reader::new(found), Reader::new(wanted));
    match (found.token(), wanted.token()) {
        (Some(Token::Object(found_length)), Some(Token::Object(wanted_length))) => {
            let mut wanted: Vec<_> = wanted.entries(wanted_length).collect();
            wanted.sort_unstable_by_key(|(key, _)| *key);
            let is_wanted = |(key, value): &(&[u8], &[u8])| {
                let position = wanted.binary_search_by_key(key, |(key, _)| *key);
                position.is_ok_and(|position| are_equal(value, wanted[position].1))
            };
            found.entries(found_length).filter(is_wanted).count() == wanted.len()
        }
        _ => false,
    }
}

/// Returns whether two values are equal. The number of levels of `b` bounds the depth of the
/// recursion.
fn are_equal(a: &[u8], b: &[u8]) -> bool {
    let (mut items, mut others) = (Reader::new(a), Reader::new(b));
    match (items.token(), others.token()) {
        (Some(Token::Array(length)), Some(Token::Array(other))) => {
            let mut pairs = (0..length).map_while(|_| items.value().zip(others.value()));
            length == other && pairs.all(|(item, other)| are_equal(item, other))
        }
        (Some(Token::Object(length)), Some(Token::Object(other))) => length == other && has_entries(a, b),
        (token, other) => token == other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::msgpack;

    fn bytes(value: &Value) -> Vec<u8> {
        msgpack::from_json(value.to_string().as_bytes()).unwrap().msgpack
    }

    fn has(found: &Value, wanted: &Value) -> bool {
        has_entries(&bytes(found), &bytes(wanted))
    }

    #[test]
    fn an_object_has_the_entries_with_equal_values() {
        let found = json!({ "a": 1, "b": [1, { "x": -1, "y": [null, true] }], "c": 0.0, "d": "text", "e": {} });

        for wanted in [
            json!({}),
            json!({ "a": 1 }),
            json!({ "d": "text", "a": 1 }),
            json!({ "b": [1, { "y": [null, true], "x": -1 }] }),
            json!({ "c": -0.0 }),
            json!({ "e": {} }),
        ] {
            assert!(has(&found, &wanted), "{wanted}");
        }
        for wanted in [
            json!({ "f": null }),
            json!({ "a": 1.0 }),
            json!({ "a": "1" }),
            json!({ "c": 0 }),
            json!({ "b": [1] }),
            json!({ "b": [1, { "x": -1 }] }),
            json!({ "b": [1, { "x": -1, "y": [null, true], "z": 1 }] }),
            json!({ "b": [{ "x": -1, "y": [null, true] }, 1] }),
            json!({ "e": [] }),
            json!({ "a": 1, "f": 1 }),
        ] {
            assert!(!has(&found, &wanted), "{wanted}");
        }
        for other in [json!(null), json!([]), json!("a"), json!(1)] {
            assert!(!has(&other, &json!({ "a": 1 })), "{other}");
        }
    }

    /// A binary frame may write a number in more bytes than it needs.
    #[test]
    fn a_value_from_messagepack_equals_that_from_json() {
        let wide = [0x81, 0xa1, b'a', 0xd3, 0, 0, 0, 0, 0, 0, 0, 1];

        assert!(has_entries(&msgpack::from_msgpack(&wide).unwrap().msgpack, &bytes(&json!({ "a": 1 }))));
    }

    #[test]
    fn of_equal_keys_the_last_value_counts() {
        let found = msgpack::from_json(br#"{"a": 1, "b": 2, "a": 3}"#).unwrap().msgpack;

        assert!(has_entries(&found, &bytes(&json!({ "a": 3, "b": 2 }))));
        assert!(!has_entries(&found, &bytes(&json!({ "a": 1 }))));
    }

    /// Values that are often equal.
    fn value() -> impl Strategy<Value = Value> {
        let numbers =
            [json!(0), json!(1), json!(1.0), json!(-1), json!(0.0), json!(-0.0), json!(u64::MAX), json!(1e300)];
        let leaf = prop::sample::select([&numbers[..], &[json!(null), json!(true), json!(""), json!("a")]].concat());
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from), object(inner)]
        })
    }

    fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let entries = prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), value), 0..4);
        entries.prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>())
    }

    proptest! {
        #[test]
        fn the_comparison_is_that_of_trees(found in prop_oneof![object(value()), value()], wanted in object(value())) {
            let empty = Map::new();
            let (tree, keys) = (found.as_object(), wanted.as_object().unwrap_or(&empty));
            let expected = tree.is_some_and(|tree| keys.iter().all(|(key, value)| tree.get(key) == Some(value)));

            prop_assert_eq!(has(&found, &wanted), expected);
        }
    }
}
