//! The consumer of the ring, whose records are mapped only while there are any.
//!
//! The kernel maps all pages of a ring at once, and those of the records twice: 8 MiB of resident memory for the ring of
//! 4 MiB. Without records, only the two pages of the positions are mapped (kernel/bpf/ringbuf.c).

#![expect(unsafe_code, reason = "the kernel writes to the mapped pages")]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use aya::maps::ring_buf::RingBufItem;
use aya::maps::{Map, MapData, MapError, RingBuf};
use memmap2::{MmapOptions, MmapRaw};
use rustix::param::page_size;

/// The consumer of the ring.
pub struct Ring {
    map: OwnedFd,
    positions: Positions,
    /// `None` while the records are not mapped.
    records: Option<RingBuf<MapData>>,
    /// A record was read since the last [`Ring::rest`].
    is_used: bool,
    has_logged_failure: bool,
}

/// The positions of the consumer and of the producers, each at the start of a page.
struct Positions(MmapRaw);

impl Positions {
    fn map(ring: &OwnedFd) -> io::Result<Positions> {
        MmapOptions::new().len(2 * page_size()).map_raw_read_only(ring.as_raw_fd()).map(Positions)
    }

    fn are_equal(&self) -> bool {
        let [consumer, producer] = [0, page_size()].map(|offset| {
            // SAFETY: both pages are mapped for as long as `self` lives, and begin with an aligned `unsigned long`, which
            // the kernel and other mappings write atomically.
            let position = unsafe { AtomicUsize::from_ptr(self.0.as_mut_ptr().add(offset).cast()) };
            position.load(Ordering::Acquire)
        });
        consumer == producer
    }
}

impl Ring {
    /// Returns the next record, if there is one.
    pub fn next(&mut self) -> Option<RingBufItem<'_>> {
        if self.records.is_none() {
            if self.positions.are_equal() {
                return None;
            }
            match self.open() {
                Ok(records) => self.records = Some(records),
                Err(error) => self.log_failure(&error),
            }
        }
        let item = self.records.as_mut()?.next()?;
        self.is_used = true;
        Some(item)
    }

    /// Unmaps the records if none was read since the last call.
    pub fn rest(&mut self) {
        if !std::mem::take(&mut self.is_used) && self.positions.are_equal() {
            self.records = None;
        }
    }

    fn open(&self) -> Result<RingBuf<MapData>, MapError> {
        RingBuf::try_from(Map::from_map_data(MapData::from_fd(self.map.try_clone()?)?)?)
    }

    /// Logs once that the records cannot be mapped. The kernel counts what does not fit meanwhile.
    fn log_failure(&mut self, error: &MapError) {
        if !std::mem::replace(&mut self.has_logged_failure, true) {
            tracing::error!(%error, "cannot map the ring of records: it is tried again");
        }
    }
}

impl TryFrom<Map> for Ring {
    type Error = MapError;

    fn try_from(map: Map) -> Result<Ring, MapError> {
        let records = RingBuf::try_from(map)?;
        let map = records.as_fd().try_clone_to_owned()?;
        let positions = Positions::map(&map)?;
        Ok(Ring { map, positions, records: Some(records), is_used: false, has_logged_failure: false })
    }
}
