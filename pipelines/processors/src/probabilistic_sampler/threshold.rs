//! Thresholds and randomness, both of 56 bits: an item is sampled if its randomness is at least the threshold.
//!
//! A threshold is written as up to 14 hex digits without trailing zeros, randomness as 14 hex digits. See
//! <https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/>.

/// Number of hex digits of 56 bits.
pub(super) const DIGITS: u32 = 14;
const BITS: u32 = 4 * DIGITS;
/// One more than the largest randomness.
const ALL: u64 = 1 << BITS;
/// The smallest probability with a threshold.
pub(super) const PROBABILITY_MIN: f64 = 1.0 / ALL as f64;

/// The least randomness of sampled items: from 0, which samples all, to 2^56, which samples none.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Threshold(u64);

/// The randomness of an item, less than 2^56.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Randomness(u64);

impl Threshold {
    pub(super) const ALWAYS: Threshold = Threshold(0);
    pub(super) const NEVER: Threshold = Threshold(ALL);

    /// Parses the digits of `th`.
    pub(super) fn parse(digits: &str) -> Option<Self> {
        let zeros = DIGITS.checked_sub(u32::try_from(digits.len()).ok()?)?;
        Some(Threshold(hex(digits)? << (4 * zeros)))
    }

    /// Returns the digits of `th`; empty if nothing is sampled.
    pub(super) fn digits(self) -> String {
        match self {
            Threshold::ALWAYS => "0".to_owned(),
            Threshold::NEVER => String::new(),
            Threshold(bits) => format!("{bits:014x}").trim_end_matches('0').to_owned(),
        }
    }

    /// Returns the threshold that samples a share of `probability`, rounded to `precision` digits, and to more near
    /// 0 and 1 so that the relative error stays small; `None` outside the range of thresholds.
    pub(super) fn of_probability(probability: f64, precision: u32) -> Option<Self> {
        if !(PROBABILITY_MIN..=1.0).contains(&probability) {
            return None;
        }
        let leading = leading_zero_digits(probability).max(leading_zero_digits(1.0 - probability));
        let precision = (precision + leading).min(DIGITS);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 2^56")]
        let rejected = ALL - (probability * ALL as f64).round() as u64;
        let dropped = 4 * (DIGITS - precision);
        let half = if dropped == 0 { 0 } else { 1 << (dropped - 1) };
        Some(Threshold((rejected + half) >> dropped << dropped))
    }

    /// Returns the threshold that rejects `buckets` of 2^14 buckets.
    pub(super) fn of_rejected_buckets(buckets: u32) -> Self {
        Threshold(u64::from(buckets) << (BITS - 14))
    }

    pub(super) fn probability(self) -> f64 {
        (ALL - self.0) as f64 / ALL as f64
    }

    pub(super) fn accepts(self, randomness: Randomness) -> bool {
        self.0 <= randomness.0
    }
}

/// Returns the number of hex digits that are 0 after the point, of a number from 0 to 1.
fn leading_zero_digits(number: f64) -> u32 {
    // The exponent of the next power of two: 0 for a half or more.
    let exponent = 1022_u64.saturating_sub(number.to_bits() >> 52);
    u32::try_from(exponent / 4).unwrap_or(DIGITS)
}

impl Randomness {
    /// The randomness that every threshold except `NEVER` accepts.
    pub(super) const MOST: Randomness = Randomness(ALL - 1);

    /// Parses the 14 digits of `rv`.
    pub(super) fn parse(digits: &str) -> Option<Self> {
        (digits.len() == DIGITS as usize).then(|| hex(digits)).flatten().map(Randomness)
    }

    pub(super) fn digits(self) -> String {
        format!("{:014x}", self.0)
    }

    /// Returns the lower 56 bits of a trace id, which the W3C requires to be random.
    pub(super) fn of_trace_id(id: &[u8; 16]) -> Self {
        let mut lower = [0; 8];
        lower[1..].copy_from_slice(&id[9..]);
        Randomness(u64::from_be_bytes(lower))
    }

    /// Returns the FNV-1a hash of a seed and bytes, spread from 32 to 56 bits as in the Collector: the upper 14
    /// bits decide and have the reverse order of the hash's lower 14; the others distinguish items.
    pub(super) fn of_hash(bytes: &[u8], seed: u32) -> Self {
        let hash = fnv1a(seed.to_le_bytes().iter().chain(bytes));
        let decisive = u64::from(hash & 0x3fff);
        let others = u64::from(hash >> 18);
        let mixed = others ^ (others << 10);
        Randomness(((0x3fff - decisive) << 42) | (mixed << 14) | decisive)
    }
}

fn fnv1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Parses hex digits; signs are refused.
fn hex(digits: &str) -> Option<u64> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_have_the_digits_of_the_specification() {
        for (probability, precision, digits) in [
            (1.0, 4, "0"),
            (0.5, 4, "8"),
            (0.25, 4, "c"),
            (0.75, 4, "4"),
            (0.1, 4, "e666"),
            (1.0 / 3.0, 3, "aab"),
            (1.0 / 3.0, 14, "aaaaaaaaaaaaac"),
            (0.01, 4, "fd70a"),
            (0.01, 3, "fd71"),
            (0.001, 4, "ffbe77"),
            (0.999, 4, "004189"),
            (PROBABILITY_MIN, 4, "ffffffffffffff"),
        ] {
            let threshold = Threshold::of_probability(probability, precision).unwrap();
            assert_eq!(threshold.digits(), digits, "{probability} {precision}");
            assert_eq!(Threshold::parse(digits), Some(threshold));
        }
        for none in [0.0, -0.5, 1.1, f64::NAN, PROBABILITY_MIN / 2.0] {
            assert_eq!(Threshold::of_probability(none, 4), None, "{none}");
        }
    }

    #[test]
    fn invalid_thresholds_and_randomness_are_refused() {
        for bad in ["", "+1", "g", "123456789012345", "-1"] {
            assert_eq!(Threshold::parse(bad), None, "{bad:?}");
        }
        for bad in ["", "1", "+1234567890123", "123456789012345"] {
            assert_eq!(Randomness::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Randomness::parse("0000000000000f"), Some(Randomness(15)));
        assert_eq!(Threshold::NEVER.digits(), "");
    }

    #[test]
    fn randomness_is_the_end_of_the_trace_id() {
        let id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01];
        assert_eq!(Randomness::of_trace_id(&id).digits(), "aabbccddeeff01");
    }

    /// The expected hashes follow from the definition of FNV-1a: the offset basis for no bytes, `e40c292c` for "a".
    #[test]
    fn upper_bits_are_the_reversed_lower_bits_of_the_hash() {
        assert_eq!(fnv1a([].iter()), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a".iter()), 0xe40c_292c);
        let randomness = Randomness::of_hash(b"trace", 7).0;
        assert_eq!(randomness >> 42, 0x3fff - (randomness & 0x3fff));
        assert_ne!(Randomness::of_hash(b"trace", 7), Randomness::of_hash(b"trace", 8));
    }
}
