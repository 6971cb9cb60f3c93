//! Which tokens are let in, and which is sent.

use super::*;
use crate::testing::{build as built, refused, start};

async fn open(json: &str) -> Offer {
    start(&FACTORY, json, &Host::detached()).await.unwrap().0
}

fn lets_in(offer: &Offer, header: &str, value: &str) -> Result<(), String> {
    let mut headers = Metadata::default();
    headers.add(header, value);
    let auth = offer.server_auth.as_ref().unwrap();
    auth.authenticate(&headers).map(|_| ()).map_err(|e| e.to_string())
}

fn sent(offer: &Offer) -> Vec<(String, String)> {
    offer.client_auth.as_ref().unwrap().headers(&Context::default()).unwrap()
}

fn one(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[tokio::test]
async fn the_token_is_sent_and_let_in_and_no_other() {
    const NO: &str = "provided authorization does not match expected scheme or token";
    let offer = open(r#"{"token": "abc"}"#).await;
    assert_eq!(sent(&offer), one("authorization", "Bearer abc"));
    for (value, want) in [
        ("Bearer abc", Ok(())),
        ("bearer abc", Err(NO)),
        ("Bearer abd", Err(NO)),
        ("Bearer ab", Err(NO)),
        ("Bearer abcd", Err(NO)),
        ("abc", Err(NO)),
        ("", Err(NO)),
    ] {
        assert_eq!(lets_in(&offer, "authorization", value), want.map_err(str::to_owned), "{value}");
    }
    let told = "missing or empty authorization header: Authorization".to_owned();
    assert_eq!(lets_in(&offer, "x", "Bearer abc"), Err(told));
}

#[tokio::test]
async fn header_and_scheme_can_be_chosen() {
    let offer = open(r#"{"token": "abc", "header": "X-Api-Key", "scheme": ""}"#).await;
    assert_eq!(sent(&offer), one("x-api-key", "abc"));
    assert_eq!(lets_in(&offer, "x-api-key", "abc"), Ok(()));
    assert!(lets_in(&offer, "x-api-key", "Bearer abc").is_err());
}

#[tokio::test]
async fn of_several_tokens_the_first_is_sent_and_all_are_let_in() {
    let offer = open(r#"{"tokens": ["one", "two"]}"#).await;
    assert_eq!(sent(&offer), one("authorization", "Bearer one"));
    assert_eq!(lets_in(&offer, "authorization", "Bearer two"), Ok(()));
    assert!(lets_in(&offer, "authorization", "Bearer three").is_err());
}

#[tokio::test]
async fn a_file_of_tokens_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "\n  one  the node's\n\ttwo\n").unwrap();
    let offer = open(&serde_json::json!({"filename": path, "token": "unused"}).to_string()).await;
    assert_eq!(sent(&offer), one("authorization", "Bearer one"));
    assert_eq!(lets_in(&offer, "authorization", "Bearer two"), Ok(()));
    assert!(lets_in(&offer, "authorization", "Bearer unused").is_err());
    std::fs::write(&path, "new").unwrap();
    assert_eq!(sent(&offer), one("authorization", "Bearer new"));
    assert!(lets_in(&offer, "authorization", "Bearer one").is_err());
    std::fs::write(&path, "").unwrap();
    assert_eq!(sent(&offer), one("authorization", "Bearer new"), "an empty file is no change");
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_collectors_words() {
    for (json, want) in [
        ("{}", "extensions::bearertokenauth: no bearer token provided"),
        (r#"{"tokens": []}"#, "extensions::bearertokenauth: no bearer token provided"),
        (
            r#"{"token": "a", "tokens": ["b"]}"#,
            "extensions::bearertokenauth: either tokens or token should be provided, not both",
        ),
        (
            r#"{"token": "a", "header": "a b"}"#,
            "extensions::bearertokenauth::header: \"a b\" is no name of a header: expected one such as Authorization",
        ),
    ] {
        assert_eq!(refused(&FACTORY, json), [want], "{json}");
    }
    assert!(built(&FACTORY, r#"{"filename": "/no/such"}"#).is_ok(), "files are opened by the start");
    let missing = start(&FACTORY, r#"{"filename": "/no/such"}"#, &Host::detached()).await.err().unwrap();
    assert!(missing.to_string().starts_with("cannot read file \"/no/such\": No such file"), "{missing}");
}
