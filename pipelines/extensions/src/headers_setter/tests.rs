//! The headers of outgoing requests.

use component::auth::Identity;
use component::context::Metadata;
use component::testing::{build as built, problems};

use super::*;
use crate::testing::start;

/// Returns the context of a request with these headers, from a sender with these attributes.
fn context(headers: &[(&str, &str)], attributes: &[(&str, &str)]) -> Context {
    let mut metadata = Metadata::default();
    headers.iter().for_each(|(key, value)| metadata.add(key, *value));
    let identity = Identity(attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect());
    Context { metadata: Arc::new(metadata), identity: Arc::new(identity), ..Context::default() }
}

async fn open(json: &str, host: &Host) -> Arc<dyn ClientAuth> {
    start(&FACTORY, json, host).await.unwrap().0.client_auth.unwrap()
}

/// Returns the headers for a list `headers` in JSON, as `key=value`.
async fn check(headers: &str, context: &Context) -> Result<Vec<String>, String> {
    let auth = open(&format!(r#"{{"headers": {headers}}}"#), &Host::detached()).await;
    let headers = auth.headers(context)?;
    Ok(headers.into_iter().map(|(key, value)| format!("{key}={value}")).collect())
}

#[tokio::test]
async fn a_value_is_from_the_section_or_from_the_request() {
    let from = context(&[("x-tenant", "acme"), ("x-two", "a"), ("x-two", "b")], &[("user", "ann")]);
    for (headers, want) in [
        (r#"[{"key": "X-A", "value": "1", "action": "upsert"}]"#, Ok(vec!["x-a=1"])),
        (r#"[{"key": "X-A", "value": "", "action": "upsert"}]"#, Ok(vec!["x-a="])),
        (r#"[{"key": "X-A", "value": "1"}]"#, Ok(vec!["x-a=1"])),
        (r#"[{"key": "X-A", "value": "1", "action": "set"}]"#, Ok(vec!["x-a=1"])),
        (r#"[{"key": "X-A", "from_context": "X-Tenant", "default_value": "d"}]"#, Ok(vec!["x-a=acme"])),
        (r#"[{"key": "X-A", "from_context": "x-other"}]"#, Ok(vec!["x-a="])),
        (r#"[{"key": "X-A", "from_context": "x-other", "default_value": "d"}]"#, Ok(vec!["x-a=d"])),
        (r#"[{"key": "X-A", "from_attribute": "user"}]"#, Ok(vec!["x-a=ann"])),
        (r#"[{"key": "X-A", "from_attribute": "group"}]"#, Ok(vec!["x-a="])),
        (r#"[{"key": "X-A", "from_attribute": "group", "default_value": "d"}]"#, Ok(vec!["x-a=d"])),
        (
            r#"[{"key": "X-A", "from_context": "x-two"}]"#,
            Err(
                "failed to determine the source: 2 source keys found in the context, can't determine which one to use",
            ),
        ),
    ] {
        let got = check(headers, &from).await;
        let want = want.map(|w| w.iter().map(|s| s.to_string()).collect()).map_err(str::to_owned);
        assert_eq!(got, want, "{headers}");
    }
}

#[tokio::test]
async fn actions_are_applied_in_order() {
    for (headers, want) in [
        (
            r#"[{"key": "a", "value": "1", "action": "insert"}, {"key": "A", "value": "2", "action": "insert"}]"#,
            vec!["a=1"],
        ),
        (
            r#"[{"key": "a", "value": "1", "action": "insert"}, {"key": "A", "value": "2", "action": "update"}]"#,
            vec!["a=2"],
        ),
        (r#"[{"key": "a", "value": "1", "action": "update"}]"#, vec![]),
        (
            r#"[{"key": "a", "value": "1"}, {"key": "b", "value": "2"}, {"key": "A", "action": "delete"}]"#,
            vec!["b=2"],
        ),
    ] {
        assert_eq!(check(headers, &Context::default()).await.unwrap(), want, "{headers}");
    }
}

#[tokio::test]
async fn a_changed_file_changes_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "one\n").unwrap();
    let json = serde_json::json!({"headers": [{"key": "x-api-key", "value_file": path}]}).to_string();
    let auth = open(&json, &Host::detached()).await;
    let value = || auth.headers(&Context::default()).unwrap()[0].1.clone();
    assert_eq!(value(), "one");
    std::fs::write(&path, "two\n").unwrap();
    assert_eq!(value(), "two");
}

#[tokio::test]
async fn headers_of_another_extension_come_first() {
    let (token, _) =
        start(&crate::bearer_token_auth::FACTORY, r#"{"token": "abc"}"#, &Host::detached()).await.unwrap();
    let host = Host::detached().with_extension(ComponentId::parse("bearertokenauth/x").unwrap(), token);
    let json = r#"{"additional_auth": "bearertokenauth/x", "headers": [{"key": "x-a", "value": "1"}]}"#;
    let headers = open(json, &host).await.headers(&Context::default()).unwrap();
    let want = [("authorization", "Bearer abc"), ("x-a", "1")];
    assert_eq!(headers, want.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let error = start(&FACTORY, json, &Host::detached()).await.err().unwrap().to_string();
    assert!(error.starts_with("extension \"bearertokenauth/x\" does not run"), "{error}");
}

#[test]
fn problems_have_the_collectors_words() {
    const MISSING: &str =
        "missing header source, must be 'from_context', 'from_attribute', 'value', or 'value_file'";
    const SEVERAL: &str = "invalid header source, must be only one of 'from_context', 'from_attribute', 'value', or 'value_file'";
    for (json, want) in [
        ("{}", vec!["::headers: missing headers configuration".to_owned()]),
        (r#"{"headers": [{"value": "1"}]}"#, vec!["::headers[0]: missing header name".to_owned()]),
        (
            r#"{"headers": [{"key": "a", "value": "1"}, {"key": "", "value": "1"}, {"key": "b"}]}"#,
            vec!["::headers[1]: missing header name".to_owned(), format!("::headers[2]: {MISSING}")],
        ),
        (
            r#"{"headers": [{"key": "a", "value": "1", "from_context": "b"}]}"#,
            vec![format!("::headers[0]: {SEVERAL}")],
        ),
        (
            r#"{"headers": [{"key": "a b", "value": "1"}]}"#,
            vec!["::headers[0]: \"a b\" is no name of a header".to_owned()],
        ),
        (
            r#"{"headers": [{"key": "a", "action": "delete"}], "additional_auth": "/x"}"#,
            vec![format!("::additional_auth: {}", ComponentId::parse("/x").unwrap_err())],
        ),
    ] {
        let want: Vec<_> = want.iter().map(|w| format!("x{w}")).collect();
        assert_eq!(problems(&FACTORY, json), want, "{json}");
    }
    assert!(built(&FACTORY, r#"{"headers": [{"key": "a", "value": "1"}], "additional_auth": null}"#).is_ok());
}
