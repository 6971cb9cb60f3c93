//! A request body in several parts, so that data merged from several requests is sent without a copy.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body in parts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: VecDeque<Bytes>,
    left: u64,
}

impl From<Vec<Bytes>> for Parts {
    fn from(parts: Vec<Bytes>) -> Self {
        let parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let left = parts.iter().map(|part| part.len() as u64).sum();
        Parts { parts, left }
    }
}

impl From<Bytes> for Parts {
    fn from(whole: Bytes) -> Self {
        vec![whole].into()
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.parts.pop_front();
        self.left -= next.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(next.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn parts_are_sent_in_order_with_a_known_size() {
        let body = Parts::from(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")]);
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(body.collect()).unwrap().to_bytes(), "abc");
        assert!(Parts::from(Bytes::new()).is_end_stream());
    }
}
