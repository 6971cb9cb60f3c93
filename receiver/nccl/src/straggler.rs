//! Detection of ranks that are late repeatedly, and of their recovery.
//!
//! A rank's lateness is its delay after the *middle* of its peers (so one early rank makes no other rank late), in
//! units of the peers' usual scatter (median absolute deviation, which a straggler cannot inflate). One late arrival is
//! not enough; the rows of [`WINDOWS`] define how often within how many collectives which lateness is needed: a small
//! one nearly always, or a large one a few times in a row. Hours of exponential scatter do not reach these thresholds
//! by chance.

use crate::rounds::Round;

/// Number of collectives in the history.
pub(crate) const ROWS: usize = 32;
/// Window length, minimum number of late collectives in it, and minimum lateness in multiples of the scatter.
const WINDOWS: [(usize, usize, f64); 5] =
    [(3, 3, 8.0), (5, 5, 5.0), (8, 6, 4.5), (16, 11, 3.5), (32, 20, 3.0)];
/// Window in which a recovered rank was late at most once.
const CALM: usize = 8;
/// Factor from a median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Scatter of clocks and probes, ns.
const SIGMA_MIN: f64 = 10_000.0;
/// Minimum number of ranks for a scatter over ranks; with fewer it is each rank's own scatter over time.
const RANKS_MANY: usize = 6;
/// Correction for small samples: the scatter is increased by this number divided by the number of samples.
const FEW: f64 = 8.0;
/// Number of collectives between measurements of the scatter once the window is full.
const REFRESH: u32 = 8;
/// Delay value of a rank that did not arrive.
const ABSENT: u64 = u64::MAX;

/// A change of a rank's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    Late { slot: usize, how: Lateness },
    Recovered { slot: usize },
}

/// Measured lateness of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    /// Median delay after the middle of its peers over the window, ns.
    pub(crate) behind_ns: u64,
    /// Usual scatter of the peers, ns.
    pub(crate) scatter_ns: u64,
    /// Collectives in the window.
    pub(crate) rounds: usize,
    /// Collectives in the window in which the rank was late.
    pub(crate) late_rounds: usize,
    /// Median of the additional wait time of its process for other work before arrival, compared with its peers, ns.
    pub(crate) waited_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    seq: u64,
    /// Delay of the middle rank after the first, ns.
    middle_ns: u64,
    /// Wait time of the middle rank before arrival, ns.
    waited_ns: u64,
    skew_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Delay after the first rank, ns.
    behind_ns: u64,
    waited_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    is_late: bool,
    /// Collectives seen when the state began. Collectives before a recovery do not make a rank late again.
    since: usize,
}

/// The last collectives of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Straggler {
    ranks: Vec<Rank>,
    rows: Vec<Row>,
    cells: Vec<Cell>,
    /// Collectives seen since the last reset.
    seen: usize,
    sigma: f64,
    fresh: u32,
    scratch: Vec<u64>,
}

impl Straggler {
    /// Adds a round of `width` slots. Changes are appended to `out`.
    pub(crate) fn push(&mut self, round: &Round, width: usize, floor_ns: u64, out: &mut Vec<Change>) {
        if width != self.ranks.len() {
            self.reset(width);
        }
        let at = self.seen % ROWS;
        self.fill(at, round);
        self.seen += 1;
        self.fresh = self.fresh.saturating_sub(1);
        for slot in 0..width {
            self.judge(slot, at, floor_ns, out);
        }
    }

    /// Clears the history but not the late ranks, because the set of ranks changed.
    pub(crate) fn reset(&mut self, width: usize) {
        self.ranks.resize(width, Rank::default());
        self.ranks.iter_mut().for_each(|rank| rank.since = 0);
        self.rows = vec![Row::default(); ROWS];
        self.cells = vec![Cell::default(); ROWS * width];
        (self.seen, self.fresh) = (0, 0);
    }

    /// Returns the skew of a collective and the slot's delay after the first; `None` after eviction.
    pub(crate) fn seen(&self, seq: u64, slot: usize) -> Option<(u64, u64)> {
        // Usually the newest.
        let at = self.newest_rows().find(|at| self.rows[*at].seq == seq)?;
        let behind_ns = self.cells[at * self.ranks.len()..][..self.ranks.len()].get(slot)?.behind_ns;
        (behind_ns != ABSENT).then_some((self.rows[at].skew_ns, behind_ns))
    }

    /// Returns the slot's mean delay after the first over the window, ns.
    pub(crate) fn lateness_ns(&self, slot: usize) -> Option<u64> {
        let filled = self.seen.min(ROWS);
        if slot >= self.ranks.len() {
            return None;
        }
        let present = || self.column(slot, filled).filter(|(_, c)| c.behind_ns != ABSENT);
        let count = present().count() as u64;
        (count > 0).then(|| present().map(|(_, c)| c.behind_ns / count).sum())
    }

    pub(crate) fn is_late(&self, slot: usize) -> bool {
        self.ranks.get(slot).is_some_and(|r| r.is_late)
    }

    fn fill(&mut self, at: usize, round: &Round) {
        let width = self.ranks.len();
        for slot in 0..width {
            let arrival = round.arrivals.get(slot).copied().unwrap_or_default();
            let behind_ns = if arrival.at_ns == 0 { ABSENT } else { arrival.at_ns - round.first_ns };
            self.cells[at * width + slot] = Cell { behind_ns, waited_ns: arrival.waited_ns };
        }
        let present = |cell: &&Cell| cell.behind_ns != ABSENT;
        let cells = &self.cells[at * width..][..width];
        let middle_ns = middle(cells.iter().filter(present).map(|c| c.behind_ns), &mut self.scratch);
        let waited_ns = middle(cells.iter().filter(present).map(|c| c.waited_ns), &mut self.scratch);
        self.rows[at] = Row { seq: round.seq, middle_ns, waited_ns, skew_ns: round.skew_ns() };
    }

    fn judge(&mut self, slot: usize, at: usize, floor_ns: u64, out: &mut Vec<Change>) {
        if self.ranks[slot].is_late {
            if self.is_calm(slot, floor_ns) {
                self.ranks[slot] = Rank { is_late: false, since: self.seen };
                out.push(Change::Recovered { slot });
            }
        } else if self.after_middle(at, slot).is_some_and(|ns| ns > floor_ns as f64)
            && let Some(how) = self.lateness(slot, floor_ns)
        {
            self.ranks[slot] = Rank { is_late: true, since: self.seen };
            out.push(Change::Late { slot, how });
        }
    }

    fn is_calm(&mut self, slot: usize, floor_ns: u64) -> bool {
        if self.seen - self.ranks[slot].since < CALM {
            return false;
        }
        let limit = (2.0 * self.sigma()).max(floor_ns as f64 / 2.0);
        let late = self.newest(slot).take(CALM).filter(|ns| *ns > limit).count();
        late <= 1
    }

    fn lateness(&mut self, slot: usize, floor_ns: u64) -> Option<Lateness> {
        let sigma = self.sigma();
        let known = (self.seen - self.ranks[slot].since).min(ROWS);
        let (rounds, late_rounds) = WINDOWS.iter().filter(|(rounds, ..)| *rounds <= known).find_map(
            |(rounds, at_least, sigmas)| {
                let limit = (sigmas * sigma).max(floor_ns as f64);
                let late = self.newest(slot).take(*rounds).filter(|ns| *ns > limit).count();
                (late >= *at_least).then_some((*rounds, late))
            },
        )?;
        let after_middle: Vec<u64> = self.newest(slot).take(rounds).map(|ns| ns.max(0.0) as u64).collect();
        let width = self.ranks.len();
        let waited: Vec<u64> = self
            .newest_rows()
            .take(rounds)
            .map(|at| self.cells[at * width + slot].waited_ns.saturating_sub(self.rows[at].waited_ns))
            .collect();
        Some(Lateness {
            behind_ns: middle(after_middle.into_iter(), &mut self.scratch),
            scatter_ns: sigma as u64,
            rounds,
            late_rounds,
            waited_ns: middle(waited.into_iter(), &mut self.scratch),
        })
    }

    /// Returns the scatter of the peers, ns.
    fn sigma(&mut self) -> f64 {
        if self.fresh == 0 {
            self.sigma = self.measure();
            self.fresh = if self.seen >= ROWS { REFRESH } else { 1 };
        }
        self.sigma
    }

    fn measure(&mut self) -> f64 {
        let (width, filled) = (self.ranks.len(), self.seen.min(ROWS));
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut deviations: Vec<u64> = Vec::with_capacity(width * filled);
        for slot in 0..width {
            match width < RANKS_MANY {
                // Few ranks have no meaningful middle: use the variation of each rank against the others.
                true => {
                    let own = median(self.own_delays(slot).collect());
                    deviations.extend(self.own_delays(slot).map(|ns| (ns - own).abs() as u64));
                }
                // In each row one rank is the middle and has 0 by definition.
                false => deviations.extend(self.newest(slot).map(|ns| ns.abs() as u64).filter(|ns| *ns > 0)),
            }
        }
        let samples = (filled * (width - 1)).max(1) as f64;
        let sigma = MAD_TO_SIGMA * middle(deviations.into_iter(), &mut scratch) as f64;
        self.scratch = scratch;
        sigma.max(SIGMA_MIN) * (1.0 + FEW / samples)
    }

    /// Returns the slot's delays after the middle, newest first, ns.
    fn newest(&self, slot: usize) -> impl Iterator<Item = f64> + '_ {
        self.newest_rows().filter_map(move |at| self.after_middle(at, slot))
    }

    /// Returns the slot's delays after the mean of the others, newest first, ns.
    fn own_delays(&self, slot: usize) -> impl Iterator<Item = f64> + '_ {
        let others = (self.ranks.len() - 1).max(1) as f64;
        self.newest_rows().filter_map(move |at| {
            let all: f64 = (0..self.ranks.len()).filter_map(|other| self.after_middle(at, other)).sum();
            let own = self.after_middle(at, slot)?;
            Some(own - (all - own) / others)
        })
    }

    fn newest_rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seen.min(ROWS)).map(|back| (self.seen - 1 - back) % ROWS)
    }

    fn after_middle(&self, at: usize, slot: usize) -> Option<f64> {
        let behind_ns = self.cells[at * self.ranks.len() + slot].behind_ns;
        (behind_ns != ABSENT).then(|| behind_ns as f64 - self.rows[at].middle_ns as f64)
    }

    fn column(&self, slot: usize, filled: usize) -> impl Iterator<Item = (usize, &Cell)> + '_ {
        (0..filled).map(move |at| (at, &self.cells[at * self.ranks.len() + slot]))
    }
}

/// Returns the lower median; 0 for no values.
fn middle(values: impl Iterator<Item = u64>, scratch: &mut Vec<u64>) -> u64 {
    scratch.clear();
    scratch.extend(values);
    match scratch.len() {
        0 => 0,
        count => *scratch.select_nth_unstable((count - 1) / 2).1,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
