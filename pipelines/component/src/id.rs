//! The id of a component in a configuration: `type` or `type/name`.

use std::fmt;

/// The id of a component. Ordered by type, then name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ComponentId {
    kind: String,
    name: String,
}

/// The reason why a text is not a component id.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum IdError {
    /// The id is empty.
    #[error("id must not be empty")]
    Empty,
    /// The part before the slash is missing.
    #[error("in {0:?} id: the part before / should not be empty")]
    NoKind(String),
    /// The part after the slash is missing.
    #[error("in {0:?} id: the part after / should not be empty")]
    NoName(String),
    /// The part before the slash is not a type name.
    #[error(
        "in {0:?} id: invalid character(s) in type {1:?}: expected a letter, then letters, digits or '_', 63 at most"
    )]
    Kind(String, String),
    /// The part after the slash is not a name.
    #[error(
        "in {0:?} id: invalid character(s) in name {1:?}: expected 1024 at most, no white space, control characters or symbols"
    )]
    Name(String, String),
}

impl ComponentId {
    /// Parses `type` or `type/name`, ignoring white space around both.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let (kind, name) = match text.split_once('/') {
            None => (text.trim(), None),
            Some((kind, name)) => (kind.trim(), Some(name.trim())),
        };
        match (kind, name) {
            ("", None) => return Err(IdError::Empty),
            ("", Some(_)) => return Err(IdError::NoKind(text.to_owned())),
            (_, Some("")) => return Err(IdError::NoName(text.to_owned())),
            _ => {}
        }
        if !is_kind(kind) {
            return Err(IdError::Kind(text.to_owned(), kind.to_owned()));
        }
        if let Some(name) = name.filter(|name| !is_name(name)) {
            return Err(IdError::Name(text.to_owned(), name.to_owned()));
        }
        Ok(ComponentId { kind: kind.to_owned(), name: name.unwrap_or_default().to_owned() })
    }

    /// Returns the type, which selects the factory.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the name after the slash; empty if there is none.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ComponentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => f.write_str(&self.kind),
            name => write!(f, "{}/{name}", self.kind),
        }
    }
}

fn is_kind(kind: &str) -> bool {
    kind.len() <= 63
        && kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_name(name: &str) -> bool {
    // ASCII symbols are refused; other ones are accepted, as in the Collector.
    let is_symbol = |c: char| matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    let is_wrong = |c: char| c.is_whitespace() || c.is_control() || is_symbol(c);
    (1..=1024).contains(&name.chars().count()) && !name.chars().any(is_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_type_with_an_optional_name() {
        let id = ComponentId::parse(" otlp / second/one ").unwrap();
        assert_eq!(
            (id.kind(), id.name(), id.to_string().as_str()),
            ("otlp", "second/one", "otlp/second/one")
        );
        assert_eq!(ComponentId::parse("batch").unwrap().to_string(), "batch");
    }

    #[test]
    fn invalid_ids_are_refused() {
        for bad in ["", "/x", "9p", "a b", "otlp/", "otlp/a b", "otlp/\u{7}", "otlp/a$b", "/"] {
            assert!(ComponentId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
