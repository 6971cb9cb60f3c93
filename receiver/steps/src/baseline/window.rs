//! The latest steps of a baseline, from which it learns after a lasting change.
//!
//! After a lasting change, steps are off *their class*, all in one direction; after a change of traffic they are not. A ring
//! of the last [`WINDOW`] steps of known classes.

/// The capacity in steps.
pub(super) const WINDOW: usize = 192;

/// The unit of logarithms: a twentieth of a percent, where shifts are a quarter. Compact, since the window is most of the
/// memory of a baseline.
const UNIT: f64 = 1.0 / 2048.0;

/// One step: its duration, and the logarithm of its ratio to the usual duration of its class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) ns: f64,
    pub(super) off: f32,
}

/// A ring of steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    /// Logarithms of durations in ns, in [`UNIT`]s: up to 21 hours.
    log: [u16; WINDOW],
    /// Distances from the class, in [`UNIT`]s.
    off: [i16; WINDOW],
    next: u8,
    len: u8,
}

impl Default for Window {
    fn default() -> Self {
        Window { log: [0; WINDOW], off: [0; WINDOW], next: 0, len: 0 }
    }
}

impl Window {
    pub(super) fn push(&mut self, sample: Sample) {
        let next = usize::from(self.next);
        self.log[next] = (sample.ns.ln() / UNIT).round() as u16;
        self.off[next] = (f64::from(sample.off) / UNIT).round() as i16;
        self.next = ((next + 1) % WINDOW) as u8;
        self.len = (self.len + 1).min(WINDOW as u8);
    }

    pub(super) fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// Returns the steps, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        let (next, len) = (usize::from(self.next), usize::from(self.len));
        (0..len).map(move |k| (next + WINDOW - len + k) % WINDOW).map(|at| {
            let [log, off] = [f64::from(self.log[at]), f64::from(self.off[at])].map(|units| units * UNIT);
            Sample { ns: log.exp(), off: off as f32 }
        })
    }

    /// Returns the mean absolute distance from the class.
    pub(super) fn deviation(&self) -> f64 {
        self.iter().map(|s| f64::from(s.off.abs())).sum::<f64>() / f64::from(self.len.max(1))
    }

    /// Returns the median shift of steps, in logarithms, if at least `count` of them, the latest included, are off by `least` or
    /// more in one direction.
    pub(super) fn shift(&self, least: f32, count: u32) -> Option<f32> {
        let latest = self.iter().last()?.off;
        if latest.abs() < least {
            return None;
        }
        let moved = |off: &f32| off.abs() >= least && (*off >= 0.0) == (latest >= 0.0);
        let mut offs = [0f32; WINDOW];
        let mut found = 0;
        for sample in self.iter().filter(|s| moved(&s.off)) {
            offs[found] = sample.off;
            found += 1;
        }
        if found < count as usize {
            return None;
        }
        offs[..found].sort_by(f32::total_cmp);
        Some(offs[found / 2])
    }
}

const _: () = assert!(WINDOW <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn window(offs: impl IntoIterator<Item = f32>) -> Window {
        let mut window = Window::default();
        offs.into_iter().for_each(|off| window.push(Sample { ns: 1.0, off }));
        window
    }

    #[track_caller]
    fn check(offs: Vec<f32>, expected: Option<f32>) {
        let found = window(offs.clone()).shift(0.2, 150);
        let alike = found.zip(expected).is_none_or(|(a, b)| (a - b).abs() < 0.001);
        assert!(found.is_some() == expected.is_some() && alike, "{found:?}, {offs:?}");
    }

    #[test]
    fn a_shift_needs_most_steps_moved_in_one_direction() {
        check(vec![], None);
        check(vec![0.7; 149], None);
        check(vec![0.7; 150], Some(0.7));
        check(vec![-0.7; 200], Some(-0.7));
        check([0.7, -0.7].repeat(100), None);
        check([vec![0.0; 42], vec![0.5; 150]].concat(), Some(0.5));
        check(vec![0.19; 128], None);
    }

    #[test]
    fn the_oldest_steps_are_overwritten() {
        let rest: Vec<_> = window((0..300).map(|k| k as f32 / 32.0)).iter().map(|s| s.off * 32.0).collect();
        assert_eq!(rest, (300 - WINDOW..300).map(|k| k as f32).collect::<Vec<_>>());
    }
}
