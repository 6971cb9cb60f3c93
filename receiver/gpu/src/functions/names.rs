//! Launches by name of function: a series for each of those that are launched most, and one for all others.
//!
//! A name keeps its series. One without takes it over when it has been launched twice as often, so that series do not
//! alternate; what the former one had counts as others from then on. No series decreases, and their sum is always the
//! number of all launches: what was reported as others before a name had a series stays there.

use std::collections::BTreeMap;

/// Launches of the functions of one name.
#[derive(Debug, Default)]
struct Named {
    launches: u64,
    /// Launches at the last collection.
    reported: u64,
    /// Launches that are reported as others; `None` without a series.
    others: Option<u64>,
}

/// Launches of a process by name of function.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: BTreeMap<String, Named>,
    /// The others that were reported last: they never decrease.
    others: u64,
}

/// The series of launches of a process.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct LaunchSeries {
    /// Names and launches.
    pub(crate) named: Vec<(String, u64)>,
    /// Launches of all other functions.
    pub(crate) others: u64,
}

impl Names {
    /// Counts launches of the functions of a name.
    pub(super) fn launch(&mut self, name: &str, launches: u64) {
        if launches > 0 {
            self.names.entry(name.to_owned()).or_default().launches += launches;
        }
    }

    /// Moves the launches of a function that has got another name, unless they are reported under the former one.
    pub(super) fn rename(&mut self, before: &str, name: &str, launches: u64) {
        let Some(former) = self.names.get_mut(before).filter(|named| named.others.is_none()) else { return };
        former.launches = former.launches.saturating_sub(launches);
        let reported = former.reported.saturating_sub(former.launches);
        former.reported -= reported;
        if former.launches == 0 {
            self.names.remove(before);
        }
        let named = self.names.entry(name.to_owned()).or_default();
        (named.launches, named.reported) = (named.launches + launches, named.reported + reported);
    }

    /// Returns the series, at most `most` with a name; `total` is the number of all launches.
    pub(super) fn collect(&mut self, most: usize, total: u64) -> LaunchSeries {
        self.assign(most);
        let with_series =
            |(name, named): (&String, &Named)| Some((name.clone(), named.launches - named.others?));
        let named: Vec<(String, u64)> = self.names.iter().filter_map(with_series).collect();
        self.names.values_mut().for_each(|named| named.reported = named.launches);
        let sum = named.iter().map(|(_, launches)| launches).sum();
        self.others = self.others.max(total.saturating_sub(sum));
        LaunchSeries { named, others: self.others }
    }

    /// Gives series to the names that are launched most.
    fn assign(&mut self, most: usize) {
        let mut without: Vec<(u64, String)> = self
            .names
            .iter()
            .filter(|(_, n)| n.others.is_none())
            .map(|(name, n)| (n.launches, name.clone()))
            .collect();
        without.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (launches, name) in without {
            let count = self.names.values().filter(|named| named.others.is_some()).count();
            if count >= most && !self.withdraw_for(launches) {
                return;
            }
            let Some(named) = self.names.get_mut(&name).filter(|_| most > 0) else { return };
            named.others = Some(named.reported);
        }
    }

    /// Withdraws the series with the fewest launches, if `launches` are twice as many. Returns false otherwise.
    fn withdraw_for(&mut self, launches: u64) -> bool {
        let fewest = self.names.values_mut().filter(|n| n.others.is_some()).min_by_key(|n| n.launches);
        let Some(fewest) = fewest.filter(|named| named.launches.saturating_mul(2) < launches) else {
            return false;
        };
        fewest.others = None;
        true
    }
}
