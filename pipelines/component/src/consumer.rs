//! Taking data: the one call every component downstream of a receiver answers.

use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Data};

/// Why data was not taken, and whether trying again can help.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum Refused {
    /// The same data will be refused again: it is wrong, or larger than ever fits.
    #[error("permanent: {reason}")]
    Permanent {
        /// What is wrong, for the log and for the sender.
        reason: String,
    },
    /// The same data may be taken later: a full queue, a backend that is down.
    #[error("{reason}")]
    Retryable {
        /// What is in the way.
        reason: String,
        /// The earliest moment to try again, where the refuser named one.
        after: Option<Duration>,
    },
}

impl Refused {
    /// A refusal that no retry can mend.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Refused::Permanent { reason: reason.into() }
    }

    /// A refusal that a later try may get past.
    pub fn retryable(reason: impl Into<String>) -> Self {
        Refused::Retryable { reason: reason.into(), after: None }
    }

    /// True where the same data may be taken later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Refused::Retryable { .. })
    }
}

/// Something that takes data. `Ok` means taken: delivered, queued, or dropped on purpose and counted.
pub trait Consumer: Send + Sync {
    /// Takes one batch, or says why not. The caller still owns nothing after `Ok`.
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>>;
}

/// Hands the same data to several consumers, each in turn, whatever the others say; the last takes the
/// original, so that it may change the data without a copy where the others kept none. What was refused is
/// told together, and may be retried while any of the refusals may.
pub struct FanOut {
    consumers: Vec<Arc<dyn Consumer>>,
}

impl FanOut {
    /// One consumer for all of `consumers`; a single one is returned as it is.
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

impl Refused {
    /// Both refusals as one.
    fn and(self, other: Refused) -> Refused {
        match (self, other) {
            (Refused::Permanent { reason: a }, Refused::Permanent { reason: b }) => {
                Refused::permanent(format!("{a}; {b}"))
            }
            (Refused::Permanent { reason: a }, Refused::Retryable { reason: b, after })
            | (Refused::Retryable { reason: a, after }, Refused::Permanent { reason: b }) => {
                Refused::Retryable { reason: format!("{a}; {b}"), after }
            }
            (Refused::Retryable { reason: a, after: x }, Refused::Retryable { reason: b, after: y }) => {
                Refused::Retryable { reason: format!("{a}; {b}"), after: x.max(y) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry_proto::tonic::logs::v1::LogsData;

    use super::*;
    use crate::Payload;

    /// Answers as told, and remembers whether the data was its own.
    struct Fake(Result<(), Refused>, Mutex<Vec<bool>>);

    impl Consumer for Fake {
        fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
            let Data::Logs(logs) = data else { unreachable!("only logs are sent") };
            self.1.lock().unwrap().push(logs.holders() == 1);
            let answer = self.0.clone();
            Box::pin(async move { answer })
        }
    }

    /// Sends one batch through consumers that answer so; returns the answer and who owned the data.
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
    fn every_consumer_gets_the_data_and_the_last_one_owns_it() {
        assert_eq!(check(&[Ok(()), Ok(()), Ok(())]), (Ok(()), vec![false, false, true]));
        assert_eq!(check(&[Ok(())]), (Ok(()), vec![true]));
        assert_eq!(check(&[]), (Ok(()), vec![]));
    }

    #[test]
    fn a_refusal_does_not_keep_the_data_from_the_others() {
        let refused = || Err(Refused::permanent("a"));
        assert_eq!(check(&[refused(), Ok(())]), (refused(), vec![false, true]));
    }

    #[test]
    fn refusals_are_told_together_and_one_retryable_makes_all_retryable() {
        let later = Refused::Retryable { reason: "b".to_owned(), after: Some(Duration::from_secs(1)) };
        let (answer, _) = check(&[Err(Refused::permanent("a")), Err(later), Err(Refused::retryable("c"))]);
        let want = Refused::Retryable { reason: "a; b; c".to_owned(), after: Some(Duration::from_secs(1)) };
        assert_eq!(answer, Err(want));
    }
}
