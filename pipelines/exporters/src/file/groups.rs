//! Files by an attribute of the resource.
//!
//! The value of the attribute replaces the `*` in the path, and cannot escape the folder before it. Resources
//! without the attribute are dropped and counted. Above `max_open_files`, the least recently used file is closed
//! and reopened when needed.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use pdata::shape::{ResourceGroup as _, Telemetry};
use pdata::{Data, Payload};
use semconv::own_metric;

use super::config::GroupByConfig;
use super::encoding::Encoding;
use super::target::{Opener, Target};

pub(super) struct Groups {
    id: ComponentId,
    before: String,
    after: String,
    attribute: String,
    files_max: usize,
    opener: Opener,
    open: HashMap<PathBuf, Open>,
    /// Number of uses of all files, to find the least recently used one.
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
        let (before, after) = path.split_once('*').unwrap_or((path, ""));
        let dropped = own_metric::OTELCOL_EXPORTER_FILE_DROPPED_RESOURCES;
        let dropped = metrics::u64_counter(host.meter(), dropped).build();
        Groups {
            id: id.clone(),
            before: before.to_owned(),
            after: after.to_owned(),
            attribute: config.resource_attribute.clone(),
            files_max: config.max_open_files as usize,
            opener,
            open: HashMap::new(),
            clock: 0,
            dropped,
        }
    }

    /// Writes each resource to its file; returns the first error.
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
                self.evict()?;
            }
            let target = self.opener.open(&path, true)?;
            self.open.insert(path.clone(), Open { target, used: 0 });
        }
        let open = self.open.get_mut(&path).ok_or(io::ErrorKind::NotFound)?;
        open.used = self.clock;
        Ok(&mut open.target)
    }

    /// Closes the least recently used file, unless its buffer cannot be written.
    fn evict(&mut self) -> io::Result<()> {
        let Some((path, open)) = self.open.iter_mut().min_by_key(|(_, open)| open.used) else {
            return Ok(());
        };
        open.target.flush()?;
        let path = path.clone();
        self.open.remove(&path);
        Ok(())
    }

    /// Returns the path for a value of the attribute.
    fn path(&self, segment: &str) -> PathBuf {
        let whole = format!("{segment}{}", self.after);
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

/// Groups the resources of a batch by their attribute, and counts those without it.
fn split(data: &Data, attribute: &str) -> (Vec<(String, Data)>, u64) {
    match data {
        Data::Logs(d) => by_segment(&**d, attribute, Data::Logs),
        Data::Metrics(d) => by_segment(&**d, attribute, Data::Metrics),
        Data::Traces(d) => by_segment(&**d, attribute, Data::Traces),
        // Profiles share one dictionary per batch and are not supported by this exporter.
        Data::Profiles(_) => (Vec::new(), 0),
    }
}

fn by_segment<T: Telemetry>(
    data: &T,
    attribute: &str,
    wrap: fn(Payload<T>) -> Data,
) -> (Vec<(String, Data)>, u64) {
    let mut parts: Vec<(&str, T)> = Vec::new();
    let mut dropped = 0;
    for group in data.parts() {
        let Some(segment) = segment(group.resource(), attribute) else {
            dropped += 1;
            continue;
        };
        if !parts.iter().any(|(known, _)| *known == segment) {
            parts.push((segment, data.without_parts()));
        }
        let part = parts.iter_mut().find(|(known, _)| *known == segment);
        part.into_iter().for_each(|(_, part)| part.parts_mut().push(group.clone()));
    }
    let wrapped = |(segment, part): (&str, T)| (segment.to_owned(), wrap(Payload::new(part)));
    (parts.into_iter().map(wrapped).collect(), dropped)
}

fn segment<'a>(resource: Option<&'a Resource>, attribute: &str) -> Option<&'a str> {
    let found = resource?.attributes.iter().find(|a| a.key == attribute)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
