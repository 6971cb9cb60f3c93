//! The call by which every component downstream of a receiver takes data, and its refusals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Code};
use pdata::Data;

/// A refusal of data: a status code, the reason, and when to try again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// The class of the refusal, passed on to the sender.
    pub code: Code,
    /// The reason, for the log and for the sender.
    pub reason: String,
    /// The shortest delay before the next attempt. A zero delay leaves the choice to the sender, and
    /// distinguishes a retryable `ResourceExhausted` from a permanent one.
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// Returns a refusal with a code and no delay.
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        Refused { code, reason: reason.into(), retry_after: None }
    }

    /// Returns a refusal (`Internal`) that a retry does not change: the data is invalid or too large.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Refused::new(Code::Internal, reason)
    }

    /// Returns a refusal (`Unavailable`) that a later attempt may get past, such as a full queue.
    pub fn retryable(reason: impl Into<String>) -> Self {
        Refused::new(Code::Unavailable, reason)
    }

    /// Adds the shortest delay before the next attempt.
    #[must_use]
    pub fn with_retry_after(self, delay: Duration) -> Self {
        Refused { retry_after: Some(delay), ..self }
    }

    /// Returns true if the same data may be accepted later, by the table of OTLP: a retryable code, or
    /// `ResourceExhausted` with a delay.
    pub fn is_retryable(&self) -> bool {
        self.code.is_retryable() || (self.code == Code::ResourceExhausted && self.retry_after.is_some())
    }

    /// Combines two refusals of the same data. The result is retryable if either is.
    fn and(self, other: Refused) -> Refused {
        let reason = format!("{}; {}", self.reason, other.reason);
        let retry_after = match (self.is_retryable(), other.is_retryable()) {
            (true, true) => self.retry_after.max(other.retry_after),
            (true, false) => self.retry_after,
            (false, true) => other.retry_after,
            (false, false) => None,
        };
        let code = if other.is_retryable() && !self.is_retryable() { other.code } else { self.code };
        Refused { code, reason, retry_after }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_retryable() { "" } else { "permanent: " })?;
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refused {}

/// A component that takes data. `Ok` means taken: delivered, queued, or dropped on purpose and counted.
pub trait Consumer: Send + Sync {
    /// Takes one batch, or returns why it was refused.
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>>;
}

/// Sends the same data to several consumers in turn, regardless of refusals. The last takes the original and
/// may change it without a copy if the others stored none. Refusals are combined into one, which is retryable
/// if any of them is.
pub struct FanOut {
    consumers: Vec<Arc<dyn Consumer>>,
}

impl FanOut {
    /// Returns one consumer for all of `consumers`; a single one is returned unchanged.
    pub fn over(mut consumers: Vec<Arc<dyn Consumer>>) -> Arc<dyn Consumer> {
        match consumers.len() {
            1 => consumers.remove(0),
            _ => Arc::new(FanOut { consumers }),
        }
    }
}

impl Consumer for FanOut {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let Some((last, others)) = self.consumers.split_last() else { return Ok(()) };
            let mut refused = Vec::new();
            for consumer in others {
                refused.extend(consumer.consume(data.clone()).await.err());
            }
            refused.extend(last.consume(data).await.err());
            refused.into_iter().reduce(Refused::and).map_or(Ok(()), Err)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry_proto::tonic::logs::v1::LogsData;

    use super::*;
    use pdata::Payload;

    /// A consumer with a fixed answer that records whether it owned the data.
    struct Fake(Result<(), Refused>, Mutex<Vec<bool>>);

    impl Consumer for Fake {
        fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
            let Data::Logs(logs) = data else { unreachable!("only logs are sent") };
            self.1.lock().unwrap().push(logs.holders() == 1);
            let answer = self.0.clone();
            Box::pin(async move { answer })
        }
    }

    /// Sends one batch to consumers with these answers; returns the answer and which of them owned the data.
    fn check(answers: &[Result<(), Refused>]) -> (Result<(), Refused>, Vec<bool>) {
        let fakes: Vec<Arc<Fake>> =
            answers.iter().map(|a| Arc::new(Fake(a.clone(), Mutex::default()))).collect();
        let fan_out = FanOut::over(fakes.iter().map(|f| f.clone() as Arc<dyn Consumer>).collect());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(fan_out.consume(Data::Logs(Payload::new(LogsData::default()))));
        let owned = fakes.iter().flat_map(|f| f.1.lock().unwrap().clone()).collect();
        (answer, owned)
    }

    #[test]
    fn every_consumer_gets_the_data_and_the_last_owns_it() {
        assert_eq!(check(&[Ok(()), Ok(()), Ok(())]), (Ok(()), vec![false, false, true]));
        assert_eq!(check(&[Ok(())]), (Ok(()), vec![true]));
        assert_eq!(check(&[]), (Ok(()), vec![]));
    }

    #[test]
    fn a_refusal_does_not_stop_the_other_consumers() {
        let refused = || Err(Refused::permanent("a"));
        assert_eq!(check(&[refused(), Ok(())]), (refused(), vec![false, true]));
    }

    #[test]
    fn combined_refusals_are_retryable_if_one_is() {
        let later = Refused::new(Code::ResourceExhausted, "b").with_retry_after(Duration::from_secs(1));
        let (answer, _) = check(&[Err(Refused::permanent("a")), Err(later), Err(Refused::retryable("c"))]);
        let want = Refused::new(Code::ResourceExhausted, "a; b; c").with_retry_after(Duration::from_secs(1));
        assert_eq!(answer, Err(want));
    }

    #[test]
    fn combined_permanent_refusals_stay_permanent() {
        let late = Refused::permanent("b").with_retry_after(Duration::ZERO);
        let (answer, _) = check(&[Err(Refused::new(Code::ResourceExhausted, "a")), Err(late)]);
        let answer = answer.unwrap_err();
        assert!(!answer.is_retryable(), "{answer:?}");
        assert_eq!(answer.to_string(), "permanent: a; b");
    }
}
