//! What the player tells a stub about one call to come: how long, with what result, with what inside.
//!
//! The one idea: an order belongs to a thread and to that thread's next call, so that threads never meet over
//! orders. A call without one behaves by the model's defaults.

use std::cell::Cell;

/// Orders for the calling thread's next call. Layout shared by player and libraries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Order {
    /// CPU time to use in the call, ns.
    pub host_ns: u64,
    /// Device time of the work that the call enqueues, ns; [`Order::BY_MODEL`] leaves it to the model.
    pub gpu_ns: u64,
    /// How long a waiting call waits, from its beginning, ns; [`Order::BY_MODEL`] leaves it to the model.
    pub block_ns: u64,
    /// What the call returns, having done nothing else; [`Order::BY_MODEL`] leaves it to the model.
    pub result: u64,
    /// Address of a function of the same library that this call calls inside itself; 0 for none.
    pub inner: u64,
    /// Address of a counter that the call raises as soon as it is entered, behind any probe; 0 for none.
    pub entered: u64,
    /// What it is raised to.
    pub entered_as: u64,
    /// The row's id of `inner`.
    pub inner_row: u32,
    /// How deep: the inner call calls the same once more, until none is left.
    pub inner_depth: u32,
}

impl Order {
    /// Leaves a field to the model.
    pub const BY_MODEL: u64 = u64::MAX;
    /// Everything by the model.
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

    /// What the driver is told when the runtime calls it for a call under this order: the host time and the
    /// inner calls are the runtime's own.
    pub fn for_driver(self) -> Order {
        Order { host_ns: 0, inner: 0, entered: 0, inner_row: 0, inner_depth: 0, ..self }
    }

    /// The order of the call inside a call under this order.
    pub fn for_inner(self) -> Order {
        match self.inner_depth {
            0 | 1 => Order::NONE,
            deep => {
                Order { inner: self.inner, inner_row: self.inner_row, inner_depth: deep - 1, ..Order::NONE }
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

/// Takes the order of the call that begins now.
pub fn take_next() -> Order {
    NEXT.replace(Order::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_for_one_call_of_one_thread() {
        set_next(Order { host_ns: 7, ..Order::NONE });
        std::thread::spawn(|| assert_eq!(take_next(), Order::NONE)).join().unwrap();
        assert_eq!(take_next().host_ns, 7);
        assert_eq!(take_next(), Order::NONE);
    }

    #[test]
    fn inner_calls_end() {
        let outer = Order { inner: 9, inner_row: 5, inner_depth: 2, ..Order::NONE };
        let inner = outer.for_inner();
        assert_eq!((inner.inner, inner.inner_row, inner.inner_depth), (9, 5, 1));
        assert_eq!(inner.for_inner(), Order::NONE);
    }
}
