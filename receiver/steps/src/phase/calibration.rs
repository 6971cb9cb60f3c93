//! The calibration of confidence: which share of labels with a sum of evidence is right.
//!
//! The points are from the synthetic programs whose phases are hardest to distinguish, of development seeds, rounded
//! downwards, since real programs differ from each other more than synthetic ones. Between points it is linear. The test
//! `evaluation` prints the reliability of other seeds and of the real traces.

/// Points of (probability by the sum of evidence, confidence), for steps whose kernels have names.
const NAMED: [(f64, f64); 7] =
    [(0.0, 0.0), (0.55, 0.4), (0.6, 0.6), (0.7, 0.72), (0.9, 0.89), (0.97, 0.97), (1.0, 1.0)];
/// Points of steps that are classified by shape alone.
const UNNAMED: [(f64, f64); 5] = [(0.0, 0.0), (0.599, 0.45), (0.6, 0.5), (0.7, 0.7), (1.0, 1.0)];

/// Returns the confidence for a probability by the sum of evidence.
pub(super) fn confidence(probability: f64, is_named: bool) -> f64 {
    let points: &[(f64, f64)] = if is_named { &NAMED } else { &UNNAMED };
    let above = points.iter().position(|point| probability <= point.0).unwrap_or(points.len() - 1).max(1);
    let [(x0, y0), (x1, y1)] = [points[above - 1], points[above]];
    (y0 + (probability - x0) / (x1 - x0) * (y1 - y0)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_grows_with_evidence() {
        for is_named in [true, false] {
            let all: Vec<f64> = (0..=1000).map(|k| confidence(f64::from(k) / 1000.0, is_named)).collect();
            assert!(all.is_sorted() && all[0] == 0.0 && all[1000] == 1.0);
        }
        assert_eq!([0.6, 0.7, 0.8].map(|p| (confidence(p, false) * 1e6).round() / 1e6), [0.5, 0.7, 0.8]);
    }
}
