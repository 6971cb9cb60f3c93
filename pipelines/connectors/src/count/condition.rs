//! The conditions of a count: the part of the Collector's transformation language (OTTL) that compares what an
//! item has with what is written.
//!
//! ```text
//!  or      = and { "or" and }
//!  and     = not { "and" not }
//!  not     = [ "not" ] ( "(" or ")" | "IsMatch" "(" value "," text ")" | value [ operator value ] )
//!  value   = text | number | "true" | "false" | "nil" | ENUM | path
//!  path    = [ owner "." ] field [ "[" text "]" ]
//! ```
//! Everything else of the language is refused, with the place where it begins. Values of different types are
//! unequal, and in no order; what is not there is `nil`.

mod paths;
mod tokens;

use std::cmp::Ordering;

use opentelemetry_proto::tonic::common::v1::any_value::Value as OtlpValue;
use regex::Regex;

use super::walk::{Kind, View};
use paths::Path;
use tokens::{Token, Tokens};

/// Why a text is no condition that can be used here.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("condition {text:?} is not supported at {rest:?}: expected {expected}")]
pub(super) struct ConditionError {
    text: String,
    rest: String,
    expected: String,
}

/// A condition, read.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    Compare(Operand, Operator, Operand),
    Match(Operand, Regex),
    True(Operand),
}

/// What is compared.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Literal(OtlpValue),
    Nil,
    Path(Path),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    const ALL: [(&'static str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
    ];

    fn holds(self, left: Option<&OtlpValue>, right: Option<&OtlpValue>) -> bool {
        let order = order(left, right);
        match self {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::Unequal => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// The order of two values; none where they have none.
fn order(left: Option<&OtlpValue>, right: Option<&OtlpValue>) -> Option<Ordering> {
    match (left, right) {
        (None, None) => Some(Ordering::Equal),
        (None, Some(_)) | (Some(_), None) => None,
        (Some(OtlpValue::StringValue(a)), Some(OtlpValue::StringValue(b))) => Some(a.cmp(b)),
        (Some(OtlpValue::BoolValue(a)), Some(OtlpValue::BoolValue(b))) => Some(a.cmp(b)),
        (Some(OtlpValue::IntValue(a)), Some(OtlpValue::IntValue(b))) => Some(a.cmp(b)),
        (Some(a), Some(b)) => number(a)?.partial_cmp(&number(b)?),
    }
}

fn number(value: &OtlpValue) -> Option<f64> {
    match value {
        OtlpValue::IntValue(n) => Some(*n as f64),
        OtlpValue::DoubleValue(v) => Some(*v),
        _ => None,
    }
}

impl Operand {
    fn value(&self, view: &View<'_>) -> Option<OtlpValue> {
        match self {
            Operand::Literal(value) => Some(value.clone()),
            Operand::Nil => None,
            Operand::Path(path) => path.value(view),
        }
    }
}

impl Condition {
    /// Reads a condition on items of this kind.
    pub(super) fn parse(kind: Kind, text: &str) -> Result<Self, ConditionError> {
        let mut parser = Parser { kind, tokens: Tokens::of(text) };
        let parsed = parser.or().and_then(|condition| match parser.tokens.next() {
            Token::End => Ok(condition),
            _ => Err("\"and\", \"or\" or the end".to_owned()),
        });
        parsed.map_err(|expected| {
            let rest = parser.tokens.last().to_owned();
            ConditionError { text: text.to_owned(), rest, expected }
        })
    }

    pub(super) fn holds(&self, view: &View<'_>) -> bool {
        match self {
            Condition::And(a, b) => a.holds(view) && b.holds(view),
            Condition::Or(a, b) => a.holds(view) || b.holds(view),
            Condition::Not(a) => !a.holds(view),
            Condition::Compare(a, operator, b) => {
                operator.holds(a.value(view).as_ref(), b.value(view).as_ref())
            }
            Condition::Match(a, pattern) => match a.value(view) {
                Some(OtlpValue::StringValue(text)) => pattern.is_match(&text),
                Some(OtlpValue::BoolValue(flag)) => pattern.is_match(&flag.to_string()),
                Some(OtlpValue::IntValue(n)) => pattern.is_match(&n.to_string()),
                Some(OtlpValue::DoubleValue(v)) => pattern.is_match(&v.to_string()),
                _ => false,
            },
            Condition::True(a) => a.value(view) == Some(OtlpValue::BoolValue(true)),
        }
    }
}

/// Parentheses and negations within each other; more is no condition that anybody reads.
const DEPTH_MAX: usize = 32;

struct Parser<'a> {
    kind: Kind,
    tokens: Tokens<'a>,
}

/// What was expected where the text did not go on.
type Expected = String;

impl Parser<'_> {
    fn or(&mut self) -> Result<Condition, Expected> {
        let mut condition = self.and()?;
        while self.tokens.take(Token::Word("or")) {
            condition = Condition::Or(Box::new(condition), Box::new(self.and()?));
        }
        Ok(condition)
    }

    fn and(&mut self) -> Result<Condition, Expected> {
        let mut condition = self.not()?;
        while self.tokens.take(Token::Word("and")) {
            condition = Condition::And(Box::new(condition), Box::new(self.not()?));
        }
        Ok(condition)
    }

    fn not(&mut self) -> Result<Condition, Expected> {
        if self.tokens.depth > DEPTH_MAX {
            return Err(format!("at most {DEPTH_MAX} conditions within each other"));
        }
        self.tokens.depth += 1;
        let condition = if self.tokens.take(Token::Word("not")) {
            self.not().map(|condition| Condition::Not(Box::new(condition)))
        } else {
            self.primary()
        };
        self.tokens.depth -= 1;
        condition
    }

    fn primary(&mut self) -> Result<Condition, Expected> {
        if self.tokens.take(Token::Sign("(")) {
            let condition = self.or()?;
            return self.expect(Token::Sign(")")).map(|()| condition);
        }
        if self.tokens.take(Token::Word("IsMatch")) {
            return self.is_match();
        }
        let left = self.operand()?;
        let operator = Operator::ALL.into_iter().find(|(sign, _)| self.tokens.take(Token::Sign(sign)));
        match operator {
            Some((_, operator)) => Ok(Condition::Compare(left, operator, self.operand()?)),
            None => Ok(Condition::True(left)),
        }
    }

    fn is_match(&mut self) -> Result<Condition, Expected> {
        self.expect(Token::Sign("("))?;
        let value = self.operand()?;
        self.expect(Token::Sign(","))?;
        let Token::Text(pattern) = self.tokens.next() else { return Err("a pattern in quotes".to_owned()) };
        let pattern = Regex::new(&pattern).map_err(|_| format!("a pattern, not {pattern:?}"))?;
        self.expect(Token::Sign(")"))?;
        Ok(Condition::Match(value, pattern))
    }

    fn operand(&mut self) -> Result<Operand, Expected> {
        Ok(match self.tokens.next() {
            Token::Text(text) => Operand::Literal(OtlpValue::StringValue(text)),
            Token::Int(n) => Operand::Literal(OtlpValue::IntValue(n)),
            Token::Double(v) => Operand::Literal(OtlpValue::DoubleValue(v)),
            Token::Word("true") => Operand::Literal(OtlpValue::BoolValue(true)),
            Token::Word("false") => Operand::Literal(OtlpValue::BoolValue(false)),
            Token::Word("nil") => Operand::Nil,
            Token::Word(word) => match paths::enumeration(word) {
                Some(number) => Operand::Literal(OtlpValue::IntValue(number.into())),
                None => self.path(word)?,
            },
            _ => return Err("a value or a path".to_owned()),
        })
    }

    fn path(&mut self, word: &str) -> Result<Operand, Expected> {
        let key = if self.tokens.take(Token::Sign("[")) {
            let Token::Text(key) = self.tokens.next() else { return Err("a key in quotes".to_owned()) };
            self.expect(Token::Sign("]"))?;
            Some(key)
        } else {
            None
        };
        Path::parse(self.kind, word, key).map(Operand::Path)
    }

    fn expect(&mut self, token: Token<'static>) -> Result<(), Expected> {
        let Token::Sign(sign) = token else { return Err("a sign".to_owned()) };
        if self.tokens.take(token) { Ok(()) } else { Err(format!("{sign:?}")) }
    }
}
