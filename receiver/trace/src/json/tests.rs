//! The reader with documents of another library, delivered in small pieces, and with garbage.

use proptest::prelude::*;

use super::*;

/// A reader that returns three bytes at a time, so that every token is split.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = into.len().min(3);
        self.0.read(&mut into[..n])
    }
}

fn json(text: &str) -> Json<'_> {
    Json::new(Box::new(Slow(text.as_bytes())), 1 << 20)
}

/// Writes a document as read: arrays, objects, and the text of all other values.
fn rewrite(json: &mut Json<'_>, out: &mut String) -> Result<(), TraceError> {
    let mut first = true;
    match json.kind()? {
        Kind::Array => {
            json.begin_array()?;
            while json.next_element(&mut first)? {
                rewrite(json, out)?;
                out.push(';');
            }
        }
        Kind::Object => {
            json.begin_object()?;
            while let Some(key) = json.next_key(&mut first)? {
                out.push_str(&String::from_utf8_lossy(key));
                out.push('=');
                rewrite(json, out)?;
                out.push(';');
            }
        }
        _ => out.push_str(&String::from_utf8_lossy(json.text()?)),
    }
    Ok(())
}

fn check(text: &str, expected: &str) {
    let (mut document, mut out) = (json(text), String::new());
    rewrite(&mut document, &mut out).unwrap();
    assert_eq!(out, expected);
    assert!(document.is_at_end().unwrap());
    let mut skipped = json(text);
    skipped.skip().unwrap();
    assert!(skipped.is_at_end().unwrap(), "skipping goes as far as reading");
}

#[test]
fn numbers_are_text_with_every_digit() {
    check(r#" {"a" : 4458676981028.392, "b":[1,-2e3,"x"],"c":{}} "#, "a=4458676981028.392;b=1;-2e3;x;;c=;");
    check(r#"["\u0041\n\\\"/", nan, -inf, true]"#, "A\n\\\"/;nan;-inf;true;");
    check("[[],[[]]]", ";;;");
}

#[test]
fn long_strings_are_cut_and_long_numbers_refused() {
    let text = format!("[\"{}\",1]", "x".repeat(100_000));
    let mut out = String::new();
    rewrite(&mut json(&text), &mut out).unwrap();
    assert_eq!(out.len(), TEXT + 3);
    assert!(json(&"1".repeat(100)).text().is_err());
}

#[test]
fn nesting_and_length_have_bounds() {
    let deep = "[".repeat(1000);
    assert!(matches!(json(&deep).skip(), Err(TraceError::TooDeep { .. })));
    let long = " ".repeat(1 << 21);
    assert!(matches!(json(&long).skip(), Err(TraceError::TooLong { .. })));
}

#[test]
fn errors_have_offset_and_expected_token() {
    let message = |text: &str| json(text).skip().unwrap_err().to_string();
    assert_eq!(message("[1,2}"), "not JSON at byte 4: expected the bracket that matches");
    assert_eq!(message("[1,"), "the trace is truncated at byte 3");
    assert_eq!(message("?"), "not JSON at byte 0: expected a value");
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        "[ -~]{0,20}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-z\"]{0,4}", inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn rewritten(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Array(items) => {
            for item in items {
                rewritten(item, out);
                out.push(';');
            }
        }
        serde_json::Value::Object(items) => {
            for (key, item) in items {
                out.push_str(key);
                out.push('=');
                rewritten(item, out);
                out.push(';');
            }
        }
        serde_json::Value::String(text) => out.push_str(text),
        other => out.push_str(&other.to_string()),
    }
}

proptest! {
    #[test]
    fn documents_of_another_library_are_read(value in value()) {
        let mut expected = String::new();
        rewritten(&value, &mut expected);
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            check(&text, &expected);
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Json::new(Box::new(Slow(&bytes)), 1 << 20).skip();
        let _ = rewrite(&mut Json::new(Box::new(Slow(&bytes)), 1 << 20), &mut String::new());
    }
}
