//! Benchmarks of the figures that the project promises, each measured as a ratio within one run.
//!
//! Each benchmark is a program under `src/bin`. It prints the measured figure and the promised one and never fails, since
//! timing does not belong in a gate.

#![expect(clippy::print_stdout, reason = "benchmarks are commands for the terminal")]

pub mod agent;
pub mod collectives;
pub mod otlp;
pub mod peer;
pub mod records;

/// Returns the median, or 0 without values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A figure that is promised not to exceed a bound.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// Name of the figure.
    pub what: &'a str,
    /// The promised bound.
    pub at_most: f64,
}

impl Promise<'_> {
    /// Prints the measured figure and the bound.
    pub fn print(&self, measured: f64) {
        let kept = if measured <= self.at_most { "met" } else { "NOT MET" };
        println!("{}: {measured:.3}, promised at most {:.2}: {kept}", self.what, self.at_most);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(super::median([9.0, 1.0, 5.0].into_iter()), 5.0);
    }
}
