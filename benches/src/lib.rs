//! Figures that the project promises, each measured as a ratio within one run.
//!
//! A benchmark is a program of its own under `src/bin`; it prints what it measured beside what was promised, and
//! never fails: timing does not belong into a gate.

#![expect(clippy::print_stdout, reason = "benchmarks are commands for the terminal")]

pub mod collectives;
pub mod otlp;
pub mod records;

/// The value in the middle; 0 of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A figure that is promised to stay below a bound.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// What is measured.
    pub what: &'a str,
    /// The bound.
    pub at_most: f64,
}

impl Promise<'_> {
    /// Prints the measured figure beside the bound.
    pub fn print(&self, measured: f64) {
        let kept = if measured <= self.at_most { "kept" } else { "NOT KEPT" };
        println!("{}: {measured:.3}, promised at most {:.2}: {kept}", self.what, self.at_most);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(super::median([9.0, 1.0, 5.0].into_iter()), 5.0);
    }
}
