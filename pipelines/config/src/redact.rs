//! Secrets in URLs: user info (`http://user:password@host`) and the values of the query (`?api_key=…`).

use std::borrow::Cow;

/// The printed form of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Returns a URL, or `host:port` with user info, without its secrets. Other text is returned as it is.
pub fn redact_url(text: &str) -> Cow<'_, str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(char::is_whitespace) => (format!("{scheme}://"), rest),
        Some(_) => return Cow::Borrowed(text),
        None => (String::new(), text),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').filter(|(user, _)| !scheme.is_empty() || is_login(user));
    let query = path.split_once('?').filter(|_| !scheme.is_empty());
    if user.is_none() && query.is_none() {
        return Cow::Borrowed(text);
    }
    let authority = user.map_or(authority.to_owned(), |(_, host)| format!("{REDACTED}@{host}"));
    let path = query.map_or(path.to_owned(), |(path, query)| format!("{path}?{}", redact_query(query)));
    Cow::Owned(format!("{scheme}{authority}{path}"))
}

/// Returns true for `user:password`; the name in an e-mail address is none.
fn is_login(user: &str) -> bool {
    user.contains(':') && !user.contains(char::is_whitespace)
}

fn redact_query(query: &str) -> String {
    let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) => format!("{name}={REDACTED}"),
        None => REDACTED.to_owned(),
    });
    parameters.collect::<Vec<_>>().join("&") + fragment
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_info_and_values_of_the_query_are_hidden() {
        for (text, shown) in [
            ("http://user:pass@host/?api_key=k", "http://[REDACTED]@host/?api_key=[REDACTED]"),
            (
                "https://token@host:4318/v1?a=1&b=2#top",
                "https://[REDACTED]@host:4318/v1?a=[REDACTED]&b=[REDACTED]#top",
            ),
            ("http://u:p@x@host", "http://[REDACTED]@host"),
            ("http://host?secret", "http://host?[REDACTED]"),
            ("user:pass@host:4317", "[REDACTED]@host:4317"),
            ("https://host:4318/a@b", "https://host:4318/a@b"),
            ("me@example.com", "me@example.com"),
            ("a == \"x://y\" ? 1", "a == \"x://y\" ? 1"),
            ("is it 5:30 @ noon?", "is it 5:30 @ noon?"),
            ("host:4317", "host:4317"),
            ("", ""),
        ] {
            assert_eq!(redact_url(text), shown);
        }
    }

    proptest! {
        #[test]
        fn no_secret_is_left(user in "[a-z:@]{1,8}", secret in "[0-9]{6}", value in "[0-9]{7}", host in "[a-z]{1,5}") {
            let shown = redact_url(&format!("http://{user}:{secret}@{host}:1/p?k={value}&{value}")).into_owned();
            prop_assert!(!shown.contains(&secret) && !shown.contains(&value) && shown.contains(&host), "{shown}");
        }
    }
}
