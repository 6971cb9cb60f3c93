//! Conditions of OTTL, the OpenTelemetry Transformation Language: comparisons of an item's fields with values.
//!
//! ```text
//!  or      = and { "or" and }
//!  and     = not { "and" not }
//!  not     = [ "not" ] ( "(" or ")" | "IsMatch" "(" value "," text ")" | value [ operator value ] )
//!  value   = text | number | "true" | "false" | "nil" | ENUM | path
//!  path    = [ owner "." ] field [ "[" text "]" ]
//! ```
//!
//! Everything else of the language is refused with its position. Values of different types are unequal and unordered; an
//! absent field is `nil`. This crate knows telemetry data and no component.

mod condition;
mod path;
mod tokens;

pub use condition::{Condition, ConditionError};
