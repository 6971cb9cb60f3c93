//! Totals of functions that programs with other objects counted, as differences from those of this agent's programs.

use std::collections::BTreeMap;

use event::{OperationTotal, ProcessId};
use probe_abi::histogram::{BUCKETS, OFFSET};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kernel::Kernel;
use crate::totals;

/// Reads of a function's totals until no call is made meanwhile. Above, a few calls may be missing or counted twice.
const READS_MAX: usize = 2_000;

/// What to add to the totals of a function. Differences of durations can be negative, since two programs measure the same
/// call differently by nanoseconds.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
pub(crate) struct Carried {
    /// Start of the process, CLOCK_BOOTTIME ns.
    pub(super) start_ns: u64,
    calls: i64,
    returned: i64,
    errors: i64,
    sum_ns: i64,
    max_ns: u64,
    zero_count: i64,
    buckets: [i64; BUCKETS],
}

impl Carried {
    /// Returns the totals that the former programs counted before this agent's programs were attached. Both count every
    /// call since then, so that the difference does not change; it is read while no call is made. The second value is
    /// false if calls were made during all reads.
    fn read(former: &Kernel, own: &Kernel, process: ProcessId, row: u16) -> (Carried, bool) {
        let read = |kernel| totals::of_row(kernel, process, row, 0);
        let mut last: Option<Carried> = None;
        let mut difference = Carried::between(&read(former), &read(own));
        for _ in 0..READS_MAX {
            let before = read(own);
            difference = Carried::between(&read(former), &before);
            // The second reading excludes that a thread was between the two programs in the first.
            if before == read(own)
                && last.replace(difference).is_some_and(|last| last.has_counts_of(&difference))
            {
                return (difference, true);
            }
        }
        (difference, false)
    }

    fn plus(mut self, other: &Carried) -> Carried {
        let fields =
            [&mut self.calls, &mut self.returned, &mut self.errors, &mut self.sum_ns, &mut self.zero_count];
        let others = [other.calls, other.returned, other.errors, other.sum_ns, other.zero_count];
        fields
            .into_iter()
            .zip(others)
            .chain(self.buckets.iter_mut().zip(other.buckets))
            .for_each(|(a, b)| *a += b);
        self.max_ns = self.max_ns.max(other.max_ns);
        self
    }

    fn has_counts_of(&self, other: &Carried) -> bool {
        (self.calls, self.returned, self.errors) == (other.calls, other.returned, other.errors)
    }

    fn between(former: &OperationTotal, own: &OperationTotal) -> Carried {
        let less = |former: u64, own: u64| former.wrapping_sub(own) as i64;
        let mut buckets = [0i64; BUCKETS];
        let signed = [(1, &former.buckets), (-1, &own.buckets)];
        for (index, count) in
            signed.into_iter().flat_map(|(sign, all)| all.iter().map(move |(i, n)| (*i, sign * *n as i64)))
        {
            if let Some(bucket) = buckets.get_mut((index - OFFSET) as usize) {
                *bucket += count;
            }
        }
        Carried {
            start_ns: former.process.start_ns,
            calls: less(former.calls, own.calls),
            returned: less(former.returned, own.returned),
            errors: less(former.errors, own.errors),
            sum_ns: less(former.sum_ns, own.sum_ns),
            max_ns: former.max_ns,
            zero_count: less(former.zero_count, own.zero_count),
            buckets,
        }
    }

    /// Adds to the totals of this agent's programs.
    fn add_to(&self, total: &mut OperationTotal) {
        let add = |own: &mut u64, carried: i64| *own = own.saturating_add_signed(carried);
        add(&mut total.calls, self.calls);
        add(&mut total.returned, self.returned);
        add(&mut total.errors, self.errors);
        add(&mut total.sum_ns, self.sum_ns);
        add(&mut total.zero_count, self.zero_count);
        total.max_ns = total.max_ns.max(self.max_ns);
        let mut buckets: BTreeMap<i32, u64> = total.buckets.iter().copied().collect();
        for (index, carried) in (OFFSET..).zip(self.buckets).filter(|(_, carried)| *carried != 0) {
            add(buckets.entry(index).or_default(), carried);
        }
        total.buckets = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
    }
}

/// The carried totals of all processes, by pid and row.
#[derive(Debug, Default)]
pub(crate) struct CarriedTotals(BTreeMap<(u32, u16), Carried>);

impl CarriedTotals {
    pub(super) fn of(all: impl Iterator<Item = ((u32, u16), Carried)>) -> CarriedTotals {
        CarriedTotals(all.collect())
    }

    fn of_process(&self, process: ProcessId) -> BTreeMap<u16, &Carried> {
        let range = self.0.range((process.pid, 0)..=(process.pid, u16::MAX));
        let same = range.filter(|(_, carried)| carried.start_ns == process.start_ns);
        same.map(|((_, row), carried)| (*row, carried)).collect()
    }

    /// Returns the rows that a process called.
    fn rows(&self, kernel: &Kernel, process: ProcessId) -> Vec<u16> {
        let mut rows = totals::rows(kernel, process.pid);
        rows.extend(self.of_process(process).keys());
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Returns what is to be carried of each function of a process, if `former` are the maps of the programs to which these
    /// totals belong, and whether it is exact.
    pub(crate) fn read(
        &self,
        former: &Kernel,
        own: &Kernel,
        process: ProcessId,
    ) -> Vec<(u16, Carried, bool)> {
        let carried = self.of_process(process);
        let read = |row: u16| {
            let (difference, is_exact) = Carried::read(former, own, process, row);
            (row, carried.get(&row).map_or(difference, |before| difference.plus(before)), is_exact)
        };
        self.rows(former, process).into_iter().map(read).collect()
    }

    /// Adds the totals of a function.
    pub(crate) fn insert(&mut self, pid: u32, row: u16, carried: Carried) {
        self.0.insert((pid, row), carried);
    }

    /// Removes a process. Returns its rows.
    pub(crate) fn remove(&mut self, pid: u32) -> Vec<u16> {
        self.0.extract_if((pid, 0)..=(pid, u16::MAX), |_, _| true).map(|((_, row), _)| row).collect()
    }

    /// Returns the totals of every function that a process called; `None` if nothing of it was carried.
    pub(crate) fn totals(&self, own: &Kernel, process: ProcessId, at_ns: u64) -> Option<Vec<OperationTotal>> {
        let carried = self.of_process(process);
        if carried.is_empty() {
            return None;
        }
        let rows = self.rows(own, process);
        let total = |row: u16| {
            let mut total = totals::of_row(own, process, row, at_ns);
            carried.get(&row).inspect(|carried| carried.add_to(&mut total));
            total
        };
        Some(rows.into_iter().map(total).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(calls: u64, buckets: &[(i32, u64)]) -> OperationTotal {
        let returned = buckets.iter().map(|(_, n)| n).sum();
        OperationTotal {
            calls,
            returned,
            sum_ns: returned * 100,
            buckets: buckets.to_vec(),
            ..OperationTotal::default()
        }
    }

    /// The own programs measured one call as longer, in another bucket.
    #[test]
    fn carried_and_own_totals_add_up_to_the_former_ones() {
        let (former, own) = (total(9, &[(-50, 3), (-49, 6)]), total(4, &[(-50, 1), (-49, 2), (-48, 1)]));
        let carried = Carried::between(&former, &own);
        let mut sum = own;
        carried.add_to(&mut sum);
        assert_eq!(sum, former);
        let mut later = total(7, &[(-50, 2), (-49, 3), (-48, 2)]);
        carried.add_to(&mut later);
        assert_eq!(later, total(12, &[(-50, 4), (-49, 7), (-48, 1)]));
    }

    #[test]
    fn removed_process_carries_nothing() {
        let mut all = CarriedTotals::default();
        let carried = Carried::between(&total(9, &[]), &total(4, &[]));
        for (pid, row) in [(7, 1), (7, 300), (8, 1)] {
            all.insert(pid, row, carried);
        }
        assert_eq!((all.remove(7), all.remove(7), all.0.len()), (vec![1, 300], Vec::new(), 1));
    }
}
