//! Who is let in, and what is said to be let in.

use super::*;
use crate::testing::{refused as problems, start};

async fn open(json: &str) -> Offer {
    start(&FACTORY, json, &Host::detached()).await.unwrap().0
}

/// Asks with a header `Authorization`, or without.
fn ask(auth: &Arc<dyn ServerAuth>, header: Option<&str>) -> Result<Identity, String> {
    let mut headers = Metadata::default();
    if let Some(header) = header {
        headers.add("Authorization", header);
    }
    auth.authenticate(&headers).map_err(|e| e.to_string())
}

fn basic(user_and_password: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_and_password))
}

#[tokio::test]
async fn the_right_password_comes_in_and_everything_else_is_told_why_not() {
    let auth = open(r#"{"htpasswd": {"inline": "ann:secret\nbob:$apr1$xy$43..WIhbfuznGvwoCyUek/"}}"#).await;
    let auth = auth.server_auth.unwrap();
    for (header, want) in [
        (Some(basic("ann:secret")), None),
        (Some(basic("ann:secret").replace("Basic", "bAsIc")), None),
        (Some(basic("bob:")), None),
        (None, Some("no basic auth provided")),
        (Some(String::new()), Some("no basic auth provided")),
        (Some("Bearer abc".to_owned()), Some("invalid authorization scheme prefix")),
        (Some("Bas".to_owned()), Some("invalid authorization scheme prefix")),
        (Some("Basic ***".to_owned()), Some("invalid authorization format")),
        (Some(basic("nocolon")), Some("invalid authorization format")),
        (Some(basic("ann:Secret")), Some("invalid credentials")),
        (Some(basic("ann:")), Some("invalid credentials")),
        (Some(basic("eve:secret")), Some("invalid credentials")),
    ] {
        let got = ask(&auth, header.as_deref());
        assert_eq!(got.err().as_deref(), want, "{header:?}");
    }
}

#[tokio::test]
async fn who_came_in_is_known_to_components() {
    let auth = open(r#"{"htpasswd": {"inline": "ann:a:b"}}"#).await.server_auth.unwrap();
    let Identity(known) = ask(&auth, Some(&basic("ann:a:b"))).unwrap();
    let raw = STANDARD.encode("ann:a:b");
    assert_eq!(
        known.into_iter().collect::<Vec<_>>(),
        [("raw".to_owned(), raw), ("username".to_owned(), "ann".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_format_is_worked_out_beside_other_tasks() {
    let line = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
    let auth =
        open(&serde_json::json!({"htpasswd": {"inline": line}}).to_string()).await.server_auth.unwrap();
    for _ in 0..3 {
        assert!(ask(&auth, Some(&basic("ann:secret"))).is_ok());
        assert!(ask(&auth, Some(&basic("ann:Secret"))).is_err());
    }
}

#[tokio::test]
async fn a_file_that_changes_changes_who_comes_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("htpasswd");
    std::fs::write(&path, "ann:one\nbob:two\n").unwrap();
    let json = serde_json::json!({"htpasswd": {"file": path, "inline": "bob:inline"}}).to_string();
    let auth = open(&json).await.server_auth.unwrap();
    let lets_in = |user: &str| ask(&auth, Some(&basic(user))).is_ok();
    assert!(lets_in("ann:one"));
    assert!(lets_in("bob:inline") && !lets_in("bob:two"), "what stands in the section wins");
    std::fs::write(&path, "ann:new\n").unwrap();
    assert!(lets_in("ann:new"));
    assert!(!lets_in("ann:one"), "what was right before is forgotten");
    std::fs::remove_file(&path).unwrap();
    assert!(lets_in("ann:new"), "a file that went leaves its users");
}

#[tokio::test]
async fn we_say_who_we_are() {
    let folder = tempfile::tempdir().unwrap();
    let [user, password] = ["user", "password"].map(|name| folder.path().join(name));
    std::fs::write(&user, "ann\n").unwrap();
    std::fs::write(&password, " one\n").unwrap();
    let files = serde_json::json!({"client_auth": {"username_file": user, "password_file": password,
        "username": "other", "password": "other"}});
    let said = |auth: &Arc<dyn ClientAuth>| auth.headers(&Context::default());
    let header = |text: &str| Ok(vec![("authorization".to_owned(), basic(text))]);
    let auth = open(&files.to_string()).await.client_auth.unwrap();
    assert_eq!(said(&auth), header("ann:one"), "files win");
    std::fs::write(&password, "two").unwrap();
    assert_eq!(said(&auth), header("ann:two"));
    std::fs::write(&user, "a:b").unwrap();
    assert_eq!(
        said(&auth),
        Err("invalid authorization format: a username must not contain a colon".to_owned())
    );
    let inline =
        open(r#"{"client_auth": {"username": "ann", "password": "pä:ss"}}"#).await.client_auth.unwrap();
    assert_eq!(said(&inline), header("ann:pä:ss"));
    assert_eq!(said(&open(r#"{"client_auth": {}}"#).await.client_auth.unwrap()), header(":"));
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_collectors_words() {
    for (json, want) in [
        ("{}", "extensions::basicauth: no credential source provided"),
        ("null", "extensions::basicauth: no credential source provided"),
        (r#"{"htpasswd": {}}"#, "extensions::basicauth::htpasswd: no credential source provided"),
        (
            r#"{"htpasswd": {"inline": "a:b"}, "client_auth": {}}"#,
            "extensions::basicauth: only one of `htpasswd` or `client_auth` can be specified",
        ),
        (r#"{"htpasswd": {"path": "x"}}"#, "extensions::basicauth::htpasswd: has invalid keys: path"),
        (
            r#"{"client_auth": {"username": "a:b"}}"#,
            "extensions::basicauth::client_auth::username: \
             invalid authorization format: a username must not contain a colon",
        ),
    ] {
        assert_eq!(problems(&FACTORY, json).first().map(String::as_str), Some(want), "{json}");
    }
    let missing = start(&FACTORY, r#"{"htpasswd": {"file": "/no/such/file"}}"#, &Host::detached()).await;
    let told = missing.err().unwrap().to_string();
    assert!(
        told.starts_with("open htpasswd file: cannot read file \"/no/such/file\": No such file"),
        "{told}"
    );
}
