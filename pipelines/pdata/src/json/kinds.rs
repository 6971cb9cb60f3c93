//! The kinds of fields in OTLP's JSON, each with its rule for unset values, for encoding and decoding.

use std::marker::PhantomData;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use crate::json::reader::{JsonError, JsonReader};
use crate::json::{Message, writer};

/// The JSON form of a Rust value of type `T`.
pub(crate) trait Kind<T> {
    /// Returns whether the field is omitted, as proto3 omits defaults.
    fn is_unset(value: &T) -> bool;
    fn write(value: &T, out: &mut Vec<u8>);
    fn read(reader: &mut JsonReader<'_>) -> Result<T, JsonError>;
}

/// A Unicode string.
pub(crate) struct Text;
/// A bool.
pub(crate) struct Flag;
/// A 32-bit number or an enum: a JSON number.
pub(crate) struct Int;
/// A 64-bit number: a string of decimal digits, because JSON parsers retain 53 bits only.
pub(crate) struct Long;
/// A double.
pub(crate) struct Double;
/// An id of `N` bytes in hex digits, or an empty one.
pub(crate) struct Hex<const N: usize>;
/// Other bytes, in base64.
pub(crate) struct Base64;
/// A nested message.
pub(crate) struct Nested;
/// An optional value of kind `K`, in which zero is not unset.
pub(crate) struct Maybe<K>(PhantomData<K>);
/// A list of values of kind `K`.
pub(crate) struct List<K>(PhantomData<K>);

impl Kind<String> for Text {
    fn is_unset(value: &String) -> bool {
        value.is_empty()
    }
    fn write(value: &String, out: &mut Vec<u8>) {
        writer::text(value, out);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<String, JsonError> {
        Ok(reader.text()?.into_owned())
    }
}

impl Kind<bool> for Flag {
    fn is_unset(value: &bool) -> bool {
        !value
    }
    fn write(value: &bool, out: &mut Vec<u8>) {
        writer::print(format_args!("{value}"), out);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<bool, JsonError> {
        reader.flag()
    }
}

macro_rules! whole_number {
    ($kind:ty, $text:literal: $($type:ty)*) => {$(
        impl Kind<$type> for $kind {
            fn is_unset(value: &$type) -> bool {
                *value == 0
            }
            fn write(value: &$type, out: &mut Vec<u8>) {
                writer::print(format_args!($text, value), out);
            }
            fn read(reader: &mut JsonReader<'_>) -> Result<$type, JsonError> {
                reader.whole_number(stringify!($type))
            }
        }
    )*};
}

whole_number!(Int, "{}": i32 u32);
whole_number!(Long, "\"{}\"": i64 u64);

impl Kind<f64> for Double {
    fn is_unset(value: &f64) -> bool {
        value.to_bits() == 0
    }
    fn write(value: &f64, out: &mut Vec<u8>) {
        writer::double(*value, out);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<f64, JsonError> {
        reader.double()
    }
}

impl<const N: usize> Kind<Vec<u8>> for Hex<N> {
    fn is_unset(value: &Vec<u8>) -> bool {
        value.is_empty()
    }
    fn write(value: &Vec<u8>, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.push(b'"');
        out.extend(value.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]));
        out.push(b'"');
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<Vec<u8>, JsonError> {
        let at = reader.at();
        let text = reader.text()?;
        let id = from_hex(&text).filter(|id| id.is_empty() || id.len() == N);
        id.ok_or_else(|| JsonError::new(at, format!("{text:?} is no id of {} hex digits", 2 * N)))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// The decoder, which accepts text with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// The URL-safe alphabet, which protobuf's JSON parsers accept, too.
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Kind<Vec<u8>> for Base64 {
    fn is_unset(value: &Vec<u8>) -> bool {
        value.is_empty()
    }
    fn write(value: &Vec<u8>, out: &mut Vec<u8>) {
        writer::quoted(&STANDARD.encode(value), out);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<Vec<u8>, JsonError> {
        let at = reader.at();
        let text = reader.text()?;
        let bytes = LENIENT.decode(text.as_bytes()).or_else(|_| LENIENT_URL.decode(text.as_bytes()));
        bytes.map_err(|e| JsonError::new(at, format!("no base64: {e}")))
    }
}

impl<M: Message> Kind<M> for Nested {
    /// Called only for a message in a oneof or a list, which is always written.
    fn is_unset(_: &M) -> bool {
        false
    }
    fn write(value: &M, out: &mut Vec<u8>) {
        writer::message(value, out);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<M, JsonError> {
        reader.message()
    }
}

impl<T, K: Kind<T>> Kind<Option<T>> for Maybe<K> {
    fn is_unset(value: &Option<T>) -> bool {
        value.is_none()
    }
    fn write(value: &Option<T>, out: &mut Vec<u8>) {
        if let Some(value) = value {
            K::write(value, out);
        }
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<Option<T>, JsonError> {
        K::read(reader).map(Some)
    }
}

impl<T, K: Kind<T>> Kind<Vec<T>> for List<K> {
    fn is_unset(value: &Vec<T>) -> bool {
        value.is_empty()
    }
    fn write(value: &Vec<T>, out: &mut Vec<u8>) {
        writer::list(value, out, K::write);
    }
    fn read(reader: &mut JsonReader<'_>) -> Result<Vec<T>, JsonError> {
        let mut items = Vec::new();
        reader.list(|reader| {
            items.push(K::read(reader)?);
            Ok(())
        })?;
        Ok(items)
    }
}
