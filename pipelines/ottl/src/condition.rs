//! Parsing and evaluation of a condition.

use std::cmp::Ordering;

use opentelemetry_proto::tonic::common::v1::any_value::Value as OtlpValue;
use regex::Regex;

use pdata::{ItemKind, ItemRef, Origin};

use crate::path::{self, Path};
use crate::tokens::{Token, Tokens};

/// The reason why a text is not a supported condition.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum ConditionError {
    /// The text ends where more is required.
    #[error("condition {text:?} ends too early: expected {expected}")]
    Incomplete {
        /// Text of the condition.
        text: String,
        /// What may follow.
        expected: String,
    },
    /// The text contains something else than what is required at a position.
    #[error("condition {text:?} is not supported at {rest:?}: expected {expected}")]
    Unsupported {
        /// Text of the condition.
        text: String,
        /// The condition from the unsupported position on.
        rest: String,
        /// What is supported at the position.
        expected: String,
    },
}

/// A parsed condition.
#[derive(Clone, Debug)]
pub struct Condition(Expression);

#[derive(Clone, Debug)]
enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Compare(Operand, Operator, Operand),
    Match(Operand, Regex),
    True(Operand),
}

#[derive(Clone, Debug)]
enum Operand {
    Literal(OtlpValue),
    Nil,
    Path(Path),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
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

/// Returns the order of two values; none if they are not comparable.
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
    fn value(&self, origin: Origin<'_>, item: ItemRef<'_>) -> Option<OtlpValue> {
        match self {
            Operand::Literal(value) => Some(value.clone()),
            Operand::Nil => None,
            Operand::Path(path) => path.value(origin, item),
        }
    }
}

impl Condition {
    /// Parses a condition on items of `kind`.
    ///
    /// # Errors
    ///
    /// If the text is not a condition of the supported part of the language, or names a field that items of this kind do
    /// not have.
    pub fn parse(kind: ItemKind, text: &str) -> Result<Self, ConditionError> {
        let mut parser = Parser { kind, tokens: Tokens::of(text) };
        let parsed = parser.or().and_then(|expression| match parser.tokens.next() {
            Token::End => Ok(Condition(expression)),
            _ => Err("\"and\", \"or\" or the end".to_owned()),
        });
        parsed.map_err(|expected| {
            let (text, rest) = (text.to_owned(), parser.tokens.last().to_owned());
            match rest.is_empty() {
                true => ConditionError::Incomplete { text, expected },
                false => ConditionError::Unsupported { text, rest, expected },
            }
        })
    }

    /// Returns true if the condition holds for an item of the kind that it was parsed for.
    pub fn holds(&self, origin: Origin<'_>, item: ItemRef<'_>) -> bool {
        self.0.holds(origin, item)
    }
}

impl Expression {
    fn holds(&self, origin: Origin<'_>, item: ItemRef<'_>) -> bool {
        let value = |operand: &Operand| operand.value(origin, item);
        match self {
            Expression::And(a, b) => a.holds(origin, item) && b.holds(origin, item),
            Expression::Or(a, b) => a.holds(origin, item) || b.holds(origin, item),
            Expression::Not(a) => !a.holds(origin, item),
            Expression::Compare(a, operator, b) => operator.holds(value(a).as_ref(), value(b).as_ref()),
            Expression::Match(a, pattern) => match value(a) {
                Some(OtlpValue::StringValue(text)) => pattern.is_match(&text),
                Some(OtlpValue::BoolValue(flag)) => pattern.is_match(&flag.to_string()),
                Some(OtlpValue::IntValue(n)) => pattern.is_match(&n.to_string()),
                Some(OtlpValue::DoubleValue(v)) => pattern.is_match(&v.to_string()),
                _ => false,
            },
            Expression::True(a) => value(a) == Some(OtlpValue::BoolValue(true)),
        }
    }
}

/// Maximum nesting of parentheses and negations.
const DEPTH_MAX: usize = 32;

struct Parser<'a> {
    kind: ItemKind,
    tokens: Tokens<'a>,
}

/// A description of what is supported at the current position.
type Expected = String;

impl Parser<'_> {
    fn or(&mut self) -> Result<Expression, Expected> {
        let mut condition = self.and()?;
        while self.tokens.take(Token::Word("or")) {
            condition = Expression::Or(Box::new(condition), Box::new(self.and()?));
        }
        Ok(condition)
    }

    fn and(&mut self) -> Result<Expression, Expected> {
        let mut condition = self.not()?;
        while self.tokens.take(Token::Word("and")) {
            condition = Expression::And(Box::new(condition), Box::new(self.not()?));
        }
        Ok(condition)
    }

    fn not(&mut self) -> Result<Expression, Expected> {
        if self.tokens.depth > DEPTH_MAX {
            return Err(format!("at most {DEPTH_MAX} conditions within each other"));
        }
        self.tokens.depth += 1;
        let condition = if self.tokens.take(Token::Word("not")) {
            self.not().map(|condition| Expression::Not(Box::new(condition)))
        } else {
            self.primary()
        };
        self.tokens.depth -= 1;
        condition
    }

    fn primary(&mut self) -> Result<Expression, Expected> {
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
            Some((_, operator)) => Ok(Expression::Compare(left, operator, self.operand()?)),
            None => Ok(Expression::True(left)),
        }
    }

    fn is_match(&mut self) -> Result<Expression, Expected> {
        self.expect(Token::Sign("("))?;
        let value = self.operand()?;
        self.expect(Token::Sign(","))?;
        let Token::Text(pattern) = self.tokens.next() else { return Err("a pattern in quotes".to_owned()) };
        let pattern = Regex::new(&pattern).map_err(|_| format!("a pattern, not {pattern:?}"))?;
        self.expect(Token::Sign(")"))?;
        Ok(Expression::Match(value, pattern))
    }

    fn operand(&mut self) -> Result<Operand, Expected> {
        Ok(match self.tokens.next() {
            Token::Text(text) => Operand::Literal(OtlpValue::StringValue(text)),
            Token::Int(n) => Operand::Literal(OtlpValue::IntValue(n)),
            Token::Double(v) => Operand::Literal(OtlpValue::DoubleValue(v)),
            Token::Word("true") => Operand::Literal(OtlpValue::BoolValue(true)),
            Token::Word("false") => Operand::Literal(OtlpValue::BoolValue(false)),
            Token::Word("nil") => Operand::Nil,
            Token::Word(word) => match path::enumeration(word) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_condition_is_reported_as_such() {
        let error = |text| Condition::parse(ItemKind::LogRecord, text).unwrap_err().to_string();
        assert_eq!(
            error("severity_number >"),
            "condition \"severity_number >\" ends too early: expected a value or a path"
        );
        assert_eq!(
            error("body == ) 1"),
            "condition \"body == ) 1\" is not supported at \") 1\": expected a value or a path"
        );
    }
}
