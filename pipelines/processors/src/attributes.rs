//! `attributes`: changes the attributes of spans, log records and metric points, of all or of those that
//! `include` and `exclude` select.

use std::sync::Arc;

use component::{BuildContext, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, Section};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use pdata::{Data, Signal};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::actions::{self, Action, ActionConfig};
use crate::change;
use crate::matching::{Item, MatchConfig, Selection, Subject};

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "attributes",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Beta,
    about: "Adds, changes, hashes or deletes attributes of spans, points and log records.",
    example: "\
actions:
  - key: user.id
    action: hash
",
    build,
};

/// What the user writes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct AttributesConfig {
    /// What to change; all where it is missing.
    pub include: Option<MatchConfig>,
    /// What to leave as it is, of what is included.
    pub exclude: Option<MatchConfig>,
    /// What to do, in order.
    pub actions: Vec<ActionConfig>,
}

struct Attributes {
    selection: Selection,
    actions: Vec<Action>,
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let config: AttributesConfig = section.decode()?;
    let mut problems = section.problems();
    let actions = actions::compile("actions", &config.actions, &mut problems);
    let selection = Selection::compile(config.include.as_ref(), config.exclude.as_ref(), &mut problems);
    problems.finish()?;
    Ok(Box::new(Attributes { selection, actions }))
}

impl Processor for Attributes {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        change::stage(move |data| self.change(data), next)
    }
}

impl Attributes {
    fn change(&self, data: &mut Data) {
        match data {
            Data::Logs(d) => {
                for r in &mut d.make_mut().resource_logs {
                    for s in &mut r.scope_logs {
                        for record in &mut s.log_records {
                            let subject =
                                Subject::of(r.resource.as_ref(), s.scope.as_ref(), Item::LogRecord(record));
                            if self.selection.takes(&subject) {
                                self.apply(&mut record.attributes);
                            }
                        }
                    }
                }
            }
            Data::Metrics(d) => {
                for r in &mut d.make_mut().resource_metrics {
                    for s in &mut r.scope_metrics {
                        for metric in &mut s.metrics {
                            let subject =
                                Subject::of(r.resource.as_ref(), s.scope.as_ref(), Item::Metric(metric));
                            if self.selection.takes(&subject) {
                                self.points(metric.data.as_mut());
                            }
                        }
                    }
                }
            }
            Data::Traces(d) => {
                for r in &mut d.make_mut().resource_spans {
                    for s in &mut r.scope_spans {
                        for span in &mut s.spans {
                            let subject =
                                Subject::of(r.resource.as_ref(), s.scope.as_ref(), Item::Span(span));
                            if self.selection.takes(&subject) {
                                self.apply(&mut span.attributes);
                            }
                        }
                    }
                }
            }
            // No pipeline of profiles takes this processor.
            Data::Profiles(_) => {}
        }
    }

    fn points(&self, data: Option<&mut MetricData>) {
        match data {
            None => {}
            Some(MetricData::Gauge(g)) => {
                g.data_points.iter_mut().for_each(|p| self.apply(&mut p.attributes));
            }
            Some(MetricData::Sum(s)) => {
                s.data_points.iter_mut().for_each(|p| self.apply(&mut p.attributes));
            }
            Some(MetricData::Histogram(h)) => {
                h.data_points.iter_mut().for_each(|p| self.apply(&mut p.attributes));
            }
            Some(MetricData::ExponentialHistogram(h)) => {
                h.data_points.iter_mut().for_each(|p| self.apply(&mut p.attributes));
            }
            Some(MetricData::Summary(s)) => {
                s.data_points.iter_mut().for_each(|p| self.apply(&mut p.attributes));
            }
        }
    }

    fn apply(&self, attributes: &mut Vec<KeyValue>) {
        actions::apply(&self.actions, attributes);
    }
}

#[cfg(test)]
mod tests;
