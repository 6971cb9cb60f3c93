//! Metric families: the samples of one name, and the collection in which names are unique.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::names;

/// Label names and values. The values of names that are equal after escaping are joined.
pub type Labels = Vec<(String, String)>;

/// The samples of one metric name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name before escaping, which may contain any character.
    pub name: String,
    /// The description; empty if unknown.
    pub help: String,
    /// The kind of its samples.
    pub kind: Kind,
    /// The samples, one per set of labels.
    pub samples: Vec<Sample>,
}

/// The kind of samples of a family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Numbers that only increase.
    Counter,
    /// Numbers that increase and decrease.
    Gauge,
    /// Counts of values per bucket.
    Histogram,
    /// Constant numbers whose labels contain the information.
    Info,
}

/// A measured value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Labels of the sample.
    pub labels: Labels,
    /// The measured value.
    pub value: Measured,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A single number.
    Number(f64),
    /// A histogram with the count of each bucket, not cumulative.
    Counts {
        /// The upper bounds, ascending.
        bounds: Vec<f64>,
        /// The counts; one more than there are bounds.
        counts: Vec<u64>,
        /// The sum of all values.
        sum: f64,
    },
}

/// Families with unique names, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Families {
    has_suffixes: bool,
    by_name: BTreeMap<String, Family>,
}

impl Families {
    /// Creates an empty collection. With suffixes, names end in their unit, and those of counters in `_total`.
    pub fn new(has_suffixes: bool) -> Self {
        Families { has_suffixes, by_name: BTreeMap::new() }
    }

    /// Adds a family whose values have this UCUM unit. If a family of the name exists, the samples are added to it;
    /// they are dropped if its kind differs, since a name has one kind.
    pub fn add(&mut self, mut family: Family, unit: &str) {
        if self.has_suffixes {
            family.name = names::with_suffixes(&family.name, unit, family.kind);
        }
        family.name = names::escaped_metric(&family.name);
        match self.by_name.entry(family.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(family);
            }
            Entry::Occupied(mut entry) if entry.get().kind == family.kind => {
                entry.get_mut().samples.append(&mut family.samples);
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Adds the family `target_info`, whose labels are the attributes of a resource.
    pub fn add_target_info(&mut self, labels: Labels) {
        let samples = vec![Sample { labels, value: Measured::Number(1.0) }];
        let (name, help) = ("target_info".to_owned(), "Target metadata".to_owned());
        self.add(Family { name, help, kind: Kind::Info, samples }, "");
    }

    /// Returns the families with escaped names, sorted by name.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = Family> {
        self.by_name.into_values()
    }
}

/// Returns the labels of an instrumentation scope.
pub fn scope_labels(name: &str, version: &str, schema_url: &str) -> [(String, String); 3] {
    [("name", name), ("schema_url", schema_url), ("version", version)]
        .map(|(part, value)| (format!("otel_scope_{part}"), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_kind_of_its_first_family() {
        let family = |name: &str, kind, number| {
            let sample = Sample { labels: Labels::new(), value: Measured::Number(number) };
            Family { name: name.to_owned(), help: String::new(), kind, samples: vec![sample] }
        };
        let mut families = Families::new(false);
        families.add(family("a.b", Kind::Gauge, 1.0), "s");
        families.add(family("a_b", Kind::Gauge, 2.0), "s");
        families.add(family("a_b", Kind::Counter, 3.0), "s");
        let found: Vec<Family> = families.into_sorted().collect();
        let values: Vec<_> = found[0].samples.iter().map(|sample| &sample.value).collect();
        assert_eq!((found.len(), found[0].name.as_str(), found[0].kind), (1, "a_b", Kind::Gauge));
        assert_eq!(values, [&Measured::Number(1.0), &Measured::Number(2.0)]);
    }
}
