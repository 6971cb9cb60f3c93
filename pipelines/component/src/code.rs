//! The status codes of gRPC, by which every refusal is classified.

/// A status code of gRPC other than `OK`. The discriminant is the number on the wire.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "gRPC defines the codes: https://grpc.io/docs/guides/status-codes/")]
pub enum Code {
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// A code, its name in Go, and the HTTP status that the Collector's receivers answer for it.
type Row = (Code, &'static str, u16);

/// Every code, in the order of the numbers.
const CODES: [Row; 16] = [
    (Code::Canceled, "Canceled", 503),
    (Code::Unknown, "Unknown", 500),
    (Code::InvalidArgument, "InvalidArgument", 400),
    (Code::DeadlineExceeded, "DeadlineExceeded", 503),
    (Code::NotFound, "NotFound", 500),
    (Code::AlreadyExists, "AlreadyExists", 500),
    (Code::PermissionDenied, "PermissionDenied", 403),
    (Code::ResourceExhausted, "ResourceExhausted", 429),
    (Code::FailedPrecondition, "FailedPrecondition", 500),
    (Code::Aborted, "Aborted", 503),
    (Code::OutOfRange, "OutOfRange", 503),
    (Code::Unimplemented, "Unimplemented", 404),
    (Code::Internal, "Internal", 500),
    (Code::Unavailable, "Unavailable", 503),
    (Code::DataLoss, "DataLoss", 503),
    (Code::Unauthenticated, "Unauthenticated", 401),
];

impl Code {
    /// Returns the code of a gRPC status; `OK` and numbers outside gRPC's list become `Unknown`.
    pub fn from_grpc(number: i32) -> Self {
        let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        index.and_then(|i| CODES.get(i)).map_or(Code::Unknown, |row| row.0)
    }

    /// Returns the code that the Collector's HTTP exporter attaches to a response with this status.
    pub fn from_http(status: u16) -> Self {
        match status {
            400 => Code::InvalidArgument,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 => Code::ResourceExhausted,
            502..=504 => Code::Unavailable,
            _ => Code::Unknown,
        }
    }

    /// Returns the name as Go writes it, which is also the attribute `error.type`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the HTTP status that a receiver answers for this code.
    pub fn http_status(self) -> u16 {
        self.row().2
    }

    /// Returns true if OTLP allows the same request to be sent again after this code. `ResourceExhausted` is
    /// retryable only if the refusal also carries a delay; see [`Refused::is_retryable`](crate::Refused).
    pub fn is_retryable(self) -> bool {
        use Code::{Aborted, Canceled, DataLoss, DeadlineExceeded, OutOfRange, Unavailable};
        matches!(self, Canceled | DeadlineExceeded | Aborted | OutOfRange | Unavailable | DataLoss)
    }

    fn row(self) -> &'static Row {
        &CODES[self as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_the_order_of_their_numbers() {
        for (number, (code, name, _)) in (1..).zip(CODES) {
            assert_eq!((code as i32, format!("{code:?}")), (number, name.to_owned()));
            assert_eq!(Code::from_grpc(number), code);
        }
        assert_eq!([0, 17, -1].map(Code::from_grpc), [Code::Unknown; 3]);
    }

    #[test]
    fn retryable_codes_map_to_retryable_http_statuses() {
        for (code, _, status) in CODES {
            let is_retryable = code.is_retryable() || code == Code::ResourceExhausted;
            assert_eq!([429, 503].contains(&status), is_retryable, "{code:?}");
        }
    }

    #[test]
    fn http_statuses_that_are_forwarded_keep_their_value() {
        for status in [400, 401, 403, 404, 429, 500, 503] {
            assert_eq!(Code::from_http(status).http_status(), status);
        }
        assert_eq!([413, 502, 504].map(|s| Code::from_http(s).http_status()), [500, 503, 503]);
    }
}
