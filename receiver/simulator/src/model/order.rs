//! Orders: how the next call of a thread behaves, set by the player. Calls without one use the defaults of the model.

use std::cell::Cell;

/// The behaviour of one call. Player and libraries share its layout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Order {
    /// CPU time to use in the call, ns.
    pub host_ns: u64,
    /// Device time of the work that the call enqueues, ns, or [`Order::BY_MODEL`].
    pub gpu_ns: u64,
    /// Time that a sync call takes, ns, or [`Order::BY_MODEL`].
    pub block_ns: u64,
    /// Result that the call returns without any effect, or [`Order::BY_MODEL`].
    pub result: u64,
    /// Address of a function of this library to call within the call; 0 for none.
    pub inner: u64,
    /// Address of a counter that the call raises after its entry was probed; 0 for none.
    pub entered: u64,
    /// Value to raise the counter to.
    pub entered_as: u64,
    /// Probe row id of `inner`.
    pub inner_row: u32,
    /// Number of nested calls.
    pub inner_depth: u32,
}

impl Order {
    /// Value of a field that the model decides.
    pub const BY_MODEL: u64 = u64::MAX;
    /// An order that leaves everything to the model.
    pub const NONE: Order = Order {
        host_ns: 0,
        gpu_ns: Order::BY_MODEL,
        block_ns: Order::BY_MODEL,
        result: Order::BY_MODEL,
        inner: 0,
        entered: 0,
        entered_as: 0,
        inner_row: 0,
        inner_depth: 0,
    };

    /// Returns the order of the driver call that a runtime call under this order makes: without host time and nested
    /// calls, which are the runtime's.
    pub fn for_driver(self) -> Order {
        Order { host_ns: 0, inner: 0, entered: 0, inner_row: 0, inner_depth: 0, ..self }
    }

    /// Returns the order of the nested call.
    pub fn for_inner(self) -> Order {
        match self.inner_depth {
            0 | 1 => Order::NONE,
            depth => {
                Order { inner: self.inner, inner_row: self.inner_row, inner_depth: depth - 1, ..Order::NONE }
            }
        }
    }
}

impl Default for Order {
    fn default() -> Order {
        Order::NONE
    }
}

const _: () = assert!(size_of::<Order>() == 64);

thread_local! {
    static NEXT: Cell<Order> = const { Cell::new(Order::NONE) };
}

/// Orders the calling thread's next call.
pub fn set_next(order: Order) {
    NEXT.set(order);
}

/// Takes the order of the call in progress.
pub fn take_next() -> Order {
    NEXT.replace(Order::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_applies_to_one_call_of_one_thread() {
        set_next(Order { host_ns: 7, ..Order::NONE });
        std::thread::spawn(|| assert_eq!(take_next(), Order::NONE)).join().unwrap();
        assert_eq!(take_next().host_ns, 7);
        assert_eq!(take_next(), Order::NONE);
    }

    #[test]
    fn nested_calls_end_at_their_depth() {
        let outer = Order { inner: 9, inner_row: 5, inner_depth: 2, ..Order::NONE };
        let inner = outer.for_inner();
        assert_eq!((inner.inner, inner.inner_row, inner.inner_depth), (9, 5, 1));
        assert_eq!(inner.for_inner(), Order::NONE);
    }
}
