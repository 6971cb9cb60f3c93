//! The last steps of a baseline: what to learn from when things have changed for good.
//!
//! The one idea: a lasting change shows in how far steps are off *their class*, all in one direction; a change of
//! traffic does not. A ring of the last [`WINDOW`] steps of known classes, overwritten in turn.

/// Steps remembered.
pub(super) const WINDOW: usize = 192;

/// One step: its duration, and the logarithm of its ratio to what its class usually takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) ns: f64,
    pub(super) off: f32,
}

/// The ring.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Narrow: the window is most of what a baseline weighs, and a ten-millionth is enough.
    ns: [f32; WINDOW],
    off: [f32; WINDOW],
    next: usize,
    len: usize,
}

impl Default for Window {
    fn default() -> Self {
        Window { ns: [0.0; WINDOW], off: [0.0; WINDOW], next: 0, len: 0 }
    }
}

impl Window {
    pub(super) fn push(&mut self, sample: Sample) {
        self.ns[self.next] = sample.ns as f32;
        self.off[self.next] = sample.off;
        self.next = (self.next + 1) % WINDOW;
        self.len = (self.len + 1).min(WINDOW);
    }

    pub(super) fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// The steps, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        let oldest = (self.next + WINDOW - self.len) % WINDOW;
        (0..self.len)
            .map(move |k| (oldest + k) % WINDOW)
            .map(|at| Sample { ns: f64::from(self.ns[at]), off: self.off[at] })
    }

    /// Mean absolute distance from the class.
    pub(super) fn deviation(&self) -> f64 {
        self.iter().map(|s| f64::from(s.off.abs())).sum::<f64>() / (self.len as f64).max(1.0)
    }

    /// By how much (median, in logarithms) steps have moved, if at least `count` of them moved by `least` or more
    /// in one direction, the latest one included.
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
        assert_eq!(window(offs.clone()).shift(0.2, 150), expected, "{offs:?}");
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
        let kept: Vec<_> = window((0..300).map(|k| k as f32)).iter().map(|s| s.off as usize).collect();
        assert_eq!(kept, (300 - WINDOW..300).collect::<Vec<_>>());
    }
}
