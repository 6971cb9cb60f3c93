//! The codec of recordings and persisted records: from one list of fields per struct come both directions.
//!
//! Little endian, no padding. The order of a struct's fields in [`fields!`](crate::fields) is its format: append,
//! never insert. A field that is not encoded as its type usually is names its [`Encoding`] behind `as`.

/// Longest text and longest run of bytes; longer ones are cut, texts at a character.
pub const TEXT_MAX: usize = 4096;

/// Bytes being written, and the bound on the lists in them.
#[derive(Debug)]
pub struct Encoder {
    /// The bytes written so far.
    pub bytes: Vec<u8>,
    /// Texts and lists that were cut because they were too long.
    pub cut: u64,
    list_max: usize,
}

impl Encoder {
    /// Returns an empty encoder that cuts lists after `list_max` items.
    pub fn new(list_max: usize) -> Encoder {
        Encoder { bytes: Vec::new(), cut: 0, list_max }
    }

    /// Appends the first `length` of `bytes`, with their count in front.
    fn put_bytes(&mut self, bytes: &[u8], length: usize) {
        self.cut += u64::from(length < bytes.len());
        (length as u16).put(self);
        self.bytes.extend_from_slice(&bytes[..length]);
    }
}

/// A value with an encoding.
pub trait Field: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Encoder);
    /// Reads a value from the front; `None` where the bytes end too early or have no meaning.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// An encoding of `T` other than the one that [`Field`] gives it.
pub trait Encoding<T> {
    /// Appends the value.
    fn put(value: &T, out: &mut Encoder);
    /// Reads a value from the front; `None` where the bytes end too early or have no meaning.
    fn take(from: &mut &[u8]) -> Option<T>;
}

/// Implements [`Field`](crate::codec::Field) for structs: `fields! { Name { field, other as Later } }`.
#[macro_export]
macro_rules! fields {
    (@put $value:expr, $out:ident) => {
        $crate::codec::Field::put($value, $out)
    };
    (@put $value:expr, $out:ident, $encoding:ty) => {
        <$encoding as $crate::codec::Encoding<_>>::put($value, $out)
    };
    (@take $from:ident) => {
        $crate::codec::Field::take($from)
    };
    (@take $from:ident, $encoding:ty) => {
        <$encoding as $crate::codec::Encoding<_>>::take($from)
    };
    ($($name:ident { $($field:tt $(as $encoding:ty)?),* $(,)? })*) => {$(
        impl $crate::codec::Field for $name {
            fn put(&self, out: &mut $crate::codec::Encoder) {
                $($crate::fields!(@put &self.$field, out $(, $encoding)?);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::fields!(@take from $(, $encoding)?)?),* })
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Encoder) {
                out.bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                take_chunk(from).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64, f32, f64);

fn take_chunk<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*first)
}

/// Reads a u16 and as many bytes.
fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::take(from)?);
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

/// A byte, 0 or 1.
impl Field for bool {
    fn put(&self, out: &mut Encoder) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// A `bool` for whether there is a value, and the value.
impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Encoder) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match bool::take(from)? {
            true => Some(Some(T::take(from)?)),
            false => Some(None),
        }
    }
}

/// The items, without a count.
impl<T: Field, const N: usize> Field for [T; N] {
    fn put(&self, out: &mut Encoder) {
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|_| T::take(from)).collect();
        items?.try_into().ok()
    }
}

/// A u16 count and the items; cut at the bound of the [`Encoder`].
impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Encoder) {
        let items = &self[..self.len().min(out.list_max)];
        out.cut += u64::from(items.len() < self.len());
        (items.len() as u16).put(out);
        items.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u16::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

/// A u16 length in bytes and UTF-8, at most [`TEXT_MAX`]. Other bytes are replaced when read.
impl Field for String {
    fn put(&self, out: &mut Encoder) {
        out.put_bytes(self.as_bytes(), self.floor_char_boundary(TEXT_MAX));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        take_bytes(from).map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Encoder) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// A last field that an earlier version did not write: the default where the bytes end before it.
#[derive(Debug)]
pub struct Later;

impl<T: Field + Default> Encoding<T> for Later {
    fn put(value: &T, out: &mut Encoder) {
        value.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<T> {
        if from.is_empty() { Some(T::default()) } else { T::take(from) }
    }
}

/// A last field that an earlier version did not write, all ones for `None`.
#[derive(Debug)]
pub struct LaterOrNone;

impl Encoding<Option<u64>> for LaterOrNone {
    fn put(value: &Option<u64>, out: &mut Encoder) {
        value.unwrap_or(u64::MAX).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Option<u64>> {
        match from.is_empty() {
            true => Some(None),
            false => u64::take(from).map(|n| Some(n).filter(|n| *n != u64::MAX)),
        }
    }
}

/// Two bytes for a value that one would hold.
#[derive(Debug)]
pub struct Wide;

impl Encoding<bool> for Wide {
    fn put(value: &bool, out: &mut Encoder) {
        u16::from(*value).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<bool> {
        u16::take(from).map(|n| n != 0)
    }
}

impl Encoding<u8> for Wide {
    fn put(value: &u8, out: &mut Encoder) {
        u16::from(*value).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<u8> {
        u16::take(from).map(|n| n as u8)
    }
}

/// A u16 length and the bytes, at most [`TEXT_MAX`].
#[derive(Debug)]
pub struct ByteString;

impl Encoding<Vec<u8>> for ByteString {
    fn put(value: &Vec<u8>, out: &mut Encoder) {
        out.put_bytes(value, value.len().min(TEXT_MAX));
    }

    fn take(from: &mut &[u8]) -> Option<Vec<u8>> {
        take_bytes(from).map(<[u8]>::to_vec)
    }
}

/// A u16 count and the items. Items that only the writer has are ignored, items that only the reader has are 0.
#[derive(Debug)]
pub struct CountedWords;

impl<const N: usize> Encoding<[u64; N]> for CountedWords {
    fn put(value: &[u64; N], out: &mut Encoder) {
        (N as u16).put(out);
        value.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<[u64; N]> {
        let mut all = [0; N];
        for slot in 0..usize::from(u16::take(from)?) {
            let value = u64::take(from)?;
            if let Some(item) = all.get_mut(slot) {
                *item = value;
            }
        }
        Some(all)
    }
}
