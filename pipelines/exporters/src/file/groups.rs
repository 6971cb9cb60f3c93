//! Files by an attribute of the resource.
//!
//! The path is what stands before the `*`, what the attribute says, and what stands behind it; whatever the
//! attribute says, it stays below the part before. Resources without the attribute are dropped and counted. Of
//! at most `max_open_files` open files the one that was written to longest ago is closed for another, and
//! opened again where it is needed again.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::MetricsData;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use pdata::Data;
use pdata::Payload;
use semconv::own_metric;

use super::config::GroupByConfig;
use super::encoding::Encoding;
use super::target::{Opener, Target};

pub(super) struct Groups {
    id: ComponentId,
    before: String,
    behind: String,
    attribute: String,
    files_max: usize,
    opener: Opener,
    open: HashMap<PathBuf, Open>,
    /// Counts uses, to know which was the last one of a file.
    clock: u64,
    dropped: Counter<u64>,
}

struct Open {
    target: Target,
    used: u64,
}

impl Groups {
    pub(super) fn new(
        id: &ComponentId,
        path: &str,
        config: &GroupByConfig,
        opener: Opener,
        host: &Host,
    ) -> Self {
        let (before, behind) = path.split_once('*').unwrap_or((path, ""));
        let dropped = own_metric::OTELCOL_EXPORTER_FILE_DROPPED_RESOURCES;
        let dropped = metrics::u64_counter(host.meter(), dropped).build();
        Groups {
            id: id.clone(),
            before: before.to_owned(),
            behind: behind.to_owned(),
            attribute: config.resource_attribute.clone(),
            files_max: config.max_open_files as usize,
            opener,
            open: HashMap::new(),
            clock: 0,
            dropped,
        }
    }

    /// Writes every resource to the file that it names. What could not be written is told together.
    pub(super) fn append(&mut self, data: &Data, encoding: Encoding) -> io::Result<()> {
        let (parts, dropped) = split(data, &self.attribute);
        if dropped > 0 {
            self.dropped.add(dropped, &[KeyValue::new("exporter", self.id.to_string())]);
            tracing::debug!(exporter = %self.id, attribute = self.attribute, dropped, "resources without the attribute");
        }
        let mut failed = None;
        for (segment, part) in parts {
            let written = self.target(&segment).and_then(|target| target.append(&encoding.record(&part)));
            failed = failed.or(written.err());
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut failed = None;
        for open in self.open.values_mut() {
            failed = failed.or(open.target.flush().err());
        }
        failed.map_or(Ok(()), Err)
    }

    fn target(&mut self, segment: &str) -> io::Result<&mut Target> {
        let path = self.path(segment);
        self.clock += 1;
        if !self.open.contains_key(&path) {
            if self.open.len() >= self.files_max {
                self.close_one()?;
            }
            let target = self.opener.open(&path, true)?;
            self.open.insert(path.clone(), Open { target, used: 0 });
        }
        let open = self.open.get_mut(&path).ok_or(io::ErrorKind::NotFound)?;
        open.used = self.clock;
        Ok(&mut open.target)
    }

    /// Closes the file that was used longest ago; one whose data the disk does not take stays open.
    fn close_one(&mut self) -> io::Result<()> {
        let Some((path, open)) = self.open.iter_mut().min_by_key(|(_, open)| open.used) else {
            return Ok(());
        };
        open.target.flush()?;
        let path = path.clone();
        self.open.remove(&path);
        Ok(())
    }

    /// The file for what the attribute says.
    fn path(&self, segment: &str) -> PathBuf {
        let whole = format!("{segment}{}", self.behind);
        let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
        for part in Path::new(&whole).components() {
            match part {
                Component::Normal(part) => parts.push(part),
                Component::ParentDir => drop(parts.pop()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let below: PathBuf = parts.into_iter().collect();
        PathBuf::from(format!("{}{}", self.before, below.display()))
    }
}

/// The resources of a batch by what their attribute says, and how many have none.
fn split(data: &Data, attribute: &str) -> (Vec<(String, Data)>, u64) {
    macro_rules! by_segment {
        ($data:ident, $wrap:ident, $all:ident . $list:ident) => {{
            let mut parts: Vec<(String, $all)> = Vec::new();
            let mut dropped = 0;
            for r in &$data.$list {
                let Some(segment) = segment(r.resource.as_ref(), attribute) else {
                    dropped += 1;
                    continue;
                };
                match parts.iter_mut().find(|(known, _)| known == segment) {
                    Some((_, part)) => part.$list.push(r.clone()),
                    None => parts.push((segment.to_owned(), $all { $list: vec![r.clone()] })),
                }
            }
            (parts.into_iter().map(|(s, part)| (s, Data::$wrap(Payload::new(part)))).collect(), dropped)
        }};
    }
    match data {
        Data::Logs(d) => by_segment!(d, Logs, LogsData.resource_logs),
        Data::Metrics(d) => by_segment!(d, Metrics, MetricsData.resource_metrics),
        Data::Traces(d) => by_segment!(d, Traces, TracesData.resource_spans),
        // Profiles of a batch refer to one dictionary: no pipeline of theirs takes this exporter.
        Data::Profiles(_) => (Vec::new(), 0),
    }
}

fn segment<'a>(resource: Option<&'a Resource>, attribute: &str) -> Option<&'a str> {
    let found = resource?.attributes.iter().find(|a| a.key == attribute)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
