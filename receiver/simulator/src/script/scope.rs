//! The names that a script has defined so far, and where each is in the script's lists.

use super::{Object, Script};
use crate::text::Result;

/// The script under construction, and the names of all its threads.
pub(super) struct Scope {
    pub(super) script: Script,
    pub(super) thread_names: Vec<String>,
}

impl Scope {
    /// Returns the index of a stream that was made above.
    pub(super) fn stream(&self, name: &str) -> Result<usize> {
        known("stream", name, &self.script.streams)
    }

    /// Returns the index of an event that was made above.
    pub(super) fn event(&self, name: &str) -> Result<usize> {
        let names: Vec<_> = self.script.events.iter().map(|(n, _)| n.clone()).collect();
        known("event", name, &names)
    }

    /// Returns the index of a graph that was made above.
    pub(super) fn graph(&self, name: &str) -> Result<usize> {
        known("graph", name, &self.script.graphs)
    }

    /// Returns the index of a function that was named above.
    pub(super) fn function(&self, name: &str) -> Result<usize> {
        known("function", name, &self.script.functions)
    }

    /// Returns the index of a thread, defined above or below.
    pub(super) fn thread(&self, name: &str) -> Result<usize> {
        known("thread", name, &self.thread_names)
    }

    /// Returns the index of a signal.
    pub(super) fn signal(&mut self, name: &str) -> usize {
        index_of(&mut self.script.signals, name)
    }

    /// Returns the index of an allocation.
    pub(super) fn buffer(&mut self, name: &str) -> usize {
        index_of(&mut self.script.buffers, name)
    }

    /// Returns the event, stream or graph of this name.
    pub(super) fn object(&self, name: &str, back: usize) -> Result<Object> {
        let event = self.event(name).map(|at| Object::Event(at, back));
        let stream = || self.stream(name).map(Object::Stream);
        let graph = || self.graph(name).map(Object::Graph);
        event.or_else(|_| stream()).or_else(|_| graph()).map_err(|_| format!("there is no object '{name}'"))
    }

    /// Returns the index of an object that a line makes, new or again under its name.
    pub(super) fn made(&mut self, name: &str, names: fn(&mut Script) -> &mut Vec<String>) -> Result<usize> {
        let known = names(&mut self.script).iter().position(|n| n == name);
        match known.filter(|at| *at != 0 || name != "default") {
            Some(at) => Ok(at),
            None if self.object(name, 0).is_ok() => Err(taken(name)),
            None => Ok(index_of(names(&mut self.script), name)),
        }
    }

    /// Returns the index of an event that a line makes, new or again under its name.
    pub(super) fn made_event(&mut self, name: &str, ring: usize) -> Result<usize> {
        match self.object(name, 0) {
            Ok(Object::Event(at, _)) => Ok(at),
            Ok(_) => Err(taken(name)),
            Err(_) => {
                self.script.events.push((name.to_string(), ring));
                Ok(self.script.events.len() - 1)
            }
        }
    }
}

fn taken(name: &str) -> String {
    format!("'{name}' is the name of something else")
}

fn index_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_string());
        names.len() - 1
    })
}

fn known(sort: &str, name: &str, names: &[String]) -> Result<usize> {
    names.iter().position(|n| n == name).ok_or_else(|| match names.is_empty() {
        true => format!("there is no {sort} '{name}', nor any other"),
        false => format!("there is no {sort} '{name}'; expected one of {}", names.join(", ")),
    })
}
