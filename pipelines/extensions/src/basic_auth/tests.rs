//! Authentication of incoming requests, and credentials of outgoing ones.

use component::testing::problems;

use super::*;
use crate::testing::start;

async fn open(json: &str) -> Capabilities {
    start(&FACTORY, json, &Host::detached()).await.unwrap().0
}

/// Authenticates a request with or without a header `Authorization`.
fn authenticate(auth: &Arc<dyn ServerAuth>, header: Option<&str>) -> Result<Identity, String> {
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
async fn only_the_right_password_is_accepted() {
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
        let got = authenticate(&auth, header.as_deref());
        assert_eq!(got.err().as_deref(), want, "{header:?}");
    }
}

#[tokio::test]
async fn components_see_the_authenticated_user() {
    let auth = open(r#"{"htpasswd": {"inline": "ann:a:b"}}"#).await.server_auth.unwrap();
    let Identity(attributes) = authenticate(&auth, Some(&basic("ann:a:b"))).unwrap();
    let raw = STANDARD.encode("ann:a:b");
    assert_eq!(
        attributes.into_iter().collect::<Vec<_>>(),
        [("raw".to_owned(), raw), ("username".to_owned(), "ann".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_format_works_in_a_multi_threaded_runtime() {
    let line = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
    let auth =
        open(&serde_json::json!({"htpasswd": {"inline": line}}).to_string()).await.server_auth.unwrap();
    for _ in 0..3 {
        assert!(authenticate(&auth, Some(&basic("ann:secret"))).is_ok());
        assert!(authenticate(&auth, Some(&basic("ann:Secret"))).is_err());
    }
}

#[tokio::test]
async fn a_changed_file_changes_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("htpasswd");
    std::fs::write(&path, "ann:one\nbob:two\n").unwrap();
    let json = serde_json::json!({"htpasswd": {"file": path, "inline": "bob:inline"}}).to_string();
    let auth = open(&json).await.server_auth.unwrap();
    let accepts = |user: &str| authenticate(&auth, Some(&basic(user))).is_ok();
    assert!(accepts("ann:one"));
    assert!(accepts("bob:inline") && !accepts("bob:two"), "the section overrides the file");
    std::fs::write(&path, "ann:new\n").unwrap();
    assert!(accepts("ann:new"));
    assert!(!accepts("ann:one"), "the cache is cleared");
    std::fs::remove_file(&path).unwrap();
    assert!(accepts("ann:new"), "a deleted file leaves its users");
}

#[tokio::test]
async fn credentials_are_sent_from_files_or_the_section() {
    let folder = tempfile::tempdir().unwrap();
    let [user, password] = ["user", "password"].map(|name| folder.path().join(name));
    std::fs::write(&user, "ann\n").unwrap();
    std::fs::write(&password, " one\n").unwrap();
    let files = serde_json::json!({"client_auth": {"username_file": user, "password_file": password,
        "username": "other", "password": "other"}});
    let sent = |auth: &Arc<dyn ClientAuth>| auth.headers(&Context::default());
    let header = |text: &str| Ok(vec![("authorization".to_owned(), basic(text))]);
    let auth = open(&files.to_string()).await.client_auth.unwrap();
    assert_eq!(sent(&auth), header("ann:one"), "files override the section");
    std::fs::write(&password, "two").unwrap();
    assert_eq!(sent(&auth), header("ann:two"));
    std::fs::write(&user, "a:b").unwrap();
    assert_eq!(
        sent(&auth),
        Err("invalid authorization format: a username must not contain a colon".to_owned())
    );
    let inline =
        open(r#"{"client_auth": {"username": "ann", "password": "pä:ss"}}"#).await.client_auth.unwrap();
    assert_eq!(sent(&inline), header("ann:pä:ss"));
    assert_eq!(sent(&open(r#"{"client_auth": {}}"#).await.client_auth.unwrap()), header(":"));
}

#[tokio::test]
async fn problems_have_the_collectors_words() {
    for (json, want) in [
        ("{}", "x: no credential source provided"),
        ("null", "x: no credential source provided"),
        (r#"{"htpasswd": {}}"#, "x::htpasswd: no credential source provided"),
        (
            r#"{"htpasswd": {"inline": "a:b"}, "client_auth": {}}"#,
            "x: only one of `htpasswd` or `client_auth` can be specified",
        ),
        (r#"{"htpasswd": {"path": "x"}}"#, "x::htpasswd: has invalid keys: path"),
        (
            r#"{"client_auth": {"username": "a:b"}}"#,
            "x::client_auth::username: \
             invalid authorization format: a username must not contain a colon",
        ),
    ] {
        assert_eq!(problems(&FACTORY, json).first().map(String::as_str), Some(want), "{json}");
    }
    let missing = start(&FACTORY, r#"{"htpasswd": {"file": "/no/such/file"}}"#, &Host::detached()).await;
    let error = missing.err().unwrap().to_string();
    assert!(
        error.starts_with("open htpasswd file: cannot read file \"/no/such/file\": No such file"),
        "{error}"
    );
}
