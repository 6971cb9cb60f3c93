//! Accepted tokens and the token that is sent.

use component::testing::{build as built, problems};

use super::*;
use crate::testing::start;

async fn open(json: &str) -> Capabilities {
    start(&FACTORY, json, &Host::detached()).await.unwrap().0
}

fn accepts(capabilities: &Capabilities, header: &str, value: &str) -> Result<(), String> {
    let mut headers = Metadata::default();
    headers.add(header, value);
    let auth = capabilities.server_auth.as_ref().unwrap();
    auth.authenticate(&headers).map(|_| ()).map_err(|e| e.to_string())
}

fn sent(capabilities: &Capabilities) -> Vec<(String, String)> {
    capabilities.client_auth.as_ref().unwrap().headers(&Context::default()).unwrap()
}

fn one(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[tokio::test]
async fn only_the_configured_token_is_accepted_and_sent() {
    const NO: &str = "provided authorization does not match expected scheme or token";
    let capabilities = open(r#"{"token": "abc"}"#).await;
    assert_eq!(sent(&capabilities), one("authorization", "Bearer abc"));
    for (value, want) in [
        ("Bearer abc", Ok(())),
        ("bearer abc", Err(NO)),
        ("Bearer abd", Err(NO)),
        ("Bearer ab", Err(NO)),
        ("Bearer abcd", Err(NO)),
        ("abc", Err(NO)),
        ("", Err(NO)),
    ] {
        assert_eq!(accepts(&capabilities, "authorization", value), want.map_err(str::to_owned), "{value}");
    }
    let error = "missing or empty authorization header: Authorization".to_owned();
    assert_eq!(accepts(&capabilities, "x", "Bearer abc"), Err(error));
}

#[tokio::test]
async fn header_and_scheme_can_be_chosen() {
    let capabilities = open(r#"{"token": "abc", "header": "X-Api-Key", "scheme": ""}"#).await;
    assert_eq!(sent(&capabilities), one("x-api-key", "abc"));
    assert_eq!(accepts(&capabilities, "x-api-key", "abc"), Ok(()));
    assert!(accepts(&capabilities, "x-api-key", "Bearer abc").is_err());
}

#[tokio::test]
async fn all_tokens_are_accepted_and_the_first_is_sent() {
    let capabilities = open(r#"{"tokens": ["one", "two"]}"#).await;
    assert_eq!(sent(&capabilities), one("authorization", "Bearer one"));
    assert_eq!(accepts(&capabilities, "authorization", "Bearer two"), Ok(()));
    assert!(accepts(&capabilities, "authorization", "Bearer three").is_err());
}

#[tokio::test]
async fn a_changed_file_changes_the_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "\n  one  the node's\n\ttwo\n").unwrap();
    let capabilities = open(&serde_json::json!({"filename": path, "token": "unused"}).to_string()).await;
    assert_eq!(sent(&capabilities), one("authorization", "Bearer one"));
    assert_eq!(accepts(&capabilities, "authorization", "Bearer two"), Ok(()));
    assert!(accepts(&capabilities, "authorization", "Bearer unused").is_err());
    std::fs::write(&path, "new").unwrap();
    assert_eq!(sent(&capabilities), one("authorization", "Bearer new"));
    assert!(accepts(&capabilities, "authorization", "Bearer one").is_err());
    std::fs::write(&path, "").unwrap();
    assert_eq!(sent(&capabilities), one("authorization", "Bearer new"), "an empty file is no change");
}

#[tokio::test]
async fn problems_have_the_collectors_words() {
    for (json, want) in [
        ("{}", "x: no bearer token provided"),
        (r#"{"tokens": []}"#, "x: no bearer token provided"),
        (r#"{"token": "a", "tokens": ["b"]}"#, "x: either tokens or token should be provided, not both"),
        (
            r#"{"token": "a", "header": "a b"}"#,
            "x::header: \"a b\" is no name of a header: expected one such as Authorization",
        ),
    ] {
        assert_eq!(problems(&FACTORY, json), [want], "{json}");
    }
    assert!(built(&FACTORY, r#"{"filename": "/no/such"}"#).is_ok(), "files are opened by the start");
    let missing = start(&FACTORY, r#"{"filename": "/no/such"}"#, &Host::detached()).await.err().unwrap();
    assert!(missing.to_string().starts_with("cannot read file \"/no/such\": No such file"), "{missing}");
}
