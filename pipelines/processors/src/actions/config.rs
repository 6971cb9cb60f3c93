//! The configuration of an action, and its checks.

use config::{Node, Problems, Value as ConfigValue};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use regex::Regex;

use super::convert::Target;
use super::{Action, FromContext, Source, When};
use crate::matching::pattern_error;

config::section! {
    /// An action on an attribute.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ActionConfig {
        /// `insert`, `update`, `upsert`, `delete`, `hash`, `extract` or `convert`; case does not matter.
        pub action: String,
        /// Attribute to act on.
        pub key: String,
        /// Value to set.
        pub value: Option<Node>,
        /// Value to set if the attribute named by `from_attribute` is missing.
        pub default_value: Option<Node>,
        /// Attribute whose value is set.
        pub from_attribute: String,
        /// Part of the request whose value is set: `metadata.` and a header name, `auth.` and an attribute of the sender, or
        /// `client.address`, the address of the sender.
        pub from_context: String,
        /// Regular expression: keys that are deleted or hashed in addition, or the groups that are extracted.
        pub pattern: String,
        /// Type to convert to: `string`, `int` or `double`.
        pub converted_type: String,
    }
}

/// Compiles all actions. Adds a problem for each wrong one, with its position in `list`.
pub(crate) fn compile(list: &str, actions: &[ActionConfig], problems: &mut Problems<'_>) -> Vec<Action> {
    if actions.is_empty() {
        problems.add("", format!("missing required field {list:?}"));
    }
    let mut compiled = Vec::with_capacity(actions.len());
    for (index, action) in actions.iter().enumerate() {
        match action.compile() {
            Ok(action) => compiled.push(action),
            Err((field, message)) => problems.add(&place(list, index, field), message),
        }
    }
    compiled
}

fn place(list: &str, index: usize, field: &str) -> String {
    let colons = if field.is_empty() { "" } else { "::" };
    format!("{list}[{index}]{colons}{field}")
}

/// The name of a wrong field, and the reason.
type Wrong = (&'static str, String);

impl ActionConfig {
    fn compile(&self) -> Result<Action, Wrong> {
        let name = self.action.to_lowercase();
        match name.as_str() {
            "insert" => self.set(When::Missing),
            "update" => self.set(When::Present),
            "upsert" => self.set(When::Always),
            "delete" => self.by_pattern(|key, pattern| Action::Delete { key, pattern }),
            "hash" => self.by_pattern(|key, pattern| Action::Hash { key, pattern }),
            "extract" => self.extract(),
            "convert" => self.convert(),
            _ => Err(("action", format!("unsupported action {:?}: expected {EXPECTED}", self.action))),
        }
    }

    fn set(&self, when: When) -> Result<Action, Wrong> {
        self.needs_key()?;
        self.does_not_use(&[PATTERN, CONVERTED_TYPE])?;
        if [VALUE, FROM_ATTRIBUTE, FROM_CONTEXT].iter().filter(|(_, is_set)| is_set(self)).count() > 1 {
            let expected = r#"expected one of "value", "from_attribute", "from_context""#;
            return Err(("", format!("multiple value sources are set: {expected}")));
        }
        let source = Source {
            value: self.value.as_ref().map(any_value).transpose().map_err(|e| ("value", e))?,
            from_attribute: Some(self.from_attribute.clone()).filter(|name| !name.is_empty()),
            from_context: self.context_source(),
            default_value: self
                .default_value
                .as_ref()
                .map(any_value)
                .transpose()
                .map_err(|e| ("default_value", e))?,
        };
        let is_set = [VALUE, FROM_ATTRIBUTE, FROM_CONTEXT].iter().any(|(_, is_set)| is_set(self));
        if !is_set && source.default_value.is_none() {
            let expected = r#"either field "value", "from_attribute", "from_context" or "default_value" must be specified"#;
            return Err(("", format!("action {:?}: {expected}", self.action)));
        }
        Ok(Action::Set { key: self.key.clone(), source, when })
    }

    /// Returns the source named by `from_context`. A name without a prefix is the name of a header.
    fn context_source(&self) -> Option<FromContext> {
        let name = self.from_context.as_str();
        match (name, name.strip_prefix("metadata."), name.strip_prefix("auth.")) {
            ("", ..) => None,
            ("client.address", ..) => Some(FromContext::Address),
            (_, Some(header), _) => Some(FromContext::Metadata(header.to_owned())),
            (_, _, Some(attribute)) => Some(FromContext::Auth(attribute.to_owned())),
            (header, ..) => Some(FromContext::Metadata(header.to_owned())),
        }
    }

    fn by_pattern(&self, make: fn(String, Option<Regex>) -> Action) -> Result<Action, Wrong> {
        if self.key.is_empty() && self.pattern.is_empty() {
            let expected = r#"at least one of "key" and "pattern" has to be used"#;
            return Err(("", format!("action {:?}: missing required field: {expected}", self.action)));
        }
        self.does_not_use(&[VALUE, FROM_ATTRIBUTE, CONVERTED_TYPE])?;
        let pattern = if self.pattern.is_empty() { None } else { Some(self.regex()?) };
        Ok(make(self.key.clone(), pattern))
    }

    fn extract(&self) -> Result<Action, Wrong> {
        self.needs_key()?;
        self.does_not_use(&[VALUE, FROM_ATTRIBUTE, FROM_CONTEXT, CONVERTED_TYPE])?;
        if self.pattern.is_empty() {
            return Err(("", r#"missing required field "pattern" for action "extract""#.into()));
        }
        let pattern = self.regex()?;
        let mut groups = pattern.capture_names().skip(1).peekable();
        if groups.peek().is_none() {
            return Err(("pattern", "contains no named matcher groups, such as (?P<name>.*)".into()));
        }
        if groups.any(|name| name.is_none()) {
            return Err(("pattern", "contains at least one unnamed matcher group".into()));
        }
        Ok(Action::Extract { key: self.key.clone(), pattern })
    }

    fn convert(&self) -> Result<Action, Wrong> {
        self.needs_key()?;
        self.does_not_use(&[VALUE, FROM_ATTRIBUTE, FROM_CONTEXT, PATTERN])?;
        if self.converted_type.is_empty() {
            return Err(("", r#"missing required field "converted_type" for action "convert""#.into()));
        }
        match Target::ALL.into_iter().find(|(name, _)| *name == self.converted_type) {
            Some((_, to)) => Ok(Action::Convert { key: self.key.clone(), to }),
            None => {
                let wrong = &self.converted_type;
                Err(("converted_type", format!("invalid value {wrong:?}: expected string, int or double")))
            }
        }
    }

    fn needs_key(&self) -> Result<(), Wrong> {
        if self.key.is_empty() { Err(("", r#"missing required field "key""#.into())) } else { Ok(()) }
    }

    fn does_not_use(&self, fields: &[Field]) -> Result<(), Wrong> {
        match fields.iter().find(|(_, is_set)| is_set(self)) {
            None => Ok(()),
            Some((field, _)) => {
                Err((*field, format!("action {:?} does not use this field: it must not be set", self.action)))
            }
        }
    }

    fn regex(&self) -> Result<Regex, Wrong> {
        Regex::new(&self.pattern).map_err(|e| ("pattern", pattern_error(&e)))
    }
}

const EXPECTED: &str = "insert, update, upsert, delete, hash, extract or convert";

/// The name of a field that only some actions use, and whether it is set.
type Field = (&'static str, fn(&ActionConfig) -> bool);

const VALUE: Field = ("value", |a| a.value.is_some());
const FROM_ATTRIBUTE: Field = ("from_attribute", |a| !a.from_attribute.is_empty());
const FROM_CONTEXT: Field = ("from_context", |a| !a.from_context.is_empty());
const PATTERN: Field = ("pattern", |a| !a.pattern.is_empty());
const CONVERTED_TYPE: Field = ("converted_type", |a| !a.converted_type.is_empty());

/// Converts a value of the configuration to an attribute value.
pub(crate) fn any_value(node: &Node) -> Result<AnyValue, String> {
    let value = match &node.value {
        ConfigValue::Null => return Ok(AnyValue::default()),
        ConfigValue::Bool(flag) => Value::BoolValue(*flag),
        ConfigValue::Int(n) => {
            Value::IntValue(i64::try_from(*n).map_err(|_| format!("{n} does not fit 64 bits"))?)
        }
        ConfigValue::Float(v) => Value::DoubleValue(*v),
        ConfigValue::String(text) => Value::StringValue(text.clone()),
        ConfigValue::Sequence(items) => {
            let values: Result<_, _> = items.iter().map(any_value).collect();
            Value::ArrayValue(ArrayValue { values: values? })
        }
        ConfigValue::Mapping(entries) => {
            let pair = |e: &config::Entry| {
                let value = Some(any_value(&e.value)?);
                Ok(KeyValue { key: e.key.clone(), value, ..KeyValue::default() })
            };
            let values: Result<_, String> = entries.iter().map(pair).collect();
            Value::KvlistValue(KeyValueList { values: values? })
        }
    };
    Ok(AnyValue { value: Some(value) })
}
