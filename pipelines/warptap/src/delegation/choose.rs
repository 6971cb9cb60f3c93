//! Which components are delegated.

use std::collections::BTreeSet;

use component::ComponentId;

use crate::config::{ComponentKind, Configured, Sections};

/// The components of a configuration that the child runs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Chosen {
    /// Components that only the child runs.
    delegated: BTreeSet<(ComponentKind, ComponentId)>,
    /// Extensions that both run, since components of both name them.
    shared: BTreeSet<ComponentId>,
}

impl Chosen {
    /// Returns whether nothing is delegated.
    pub fn is_empty(&self) -> bool {
        self.delegated.is_empty()
    }

    /// Returns whether the child runs a component, and this collector does not.
    pub fn is_delegated(&self, kind: ComponentKind, id: &ComponentId) -> bool {
        self.delegated.contains(&(kind, id.clone()))
    }

    /// Returns whether the configuration of the child has a component.
    pub fn is_in_child(&self, kind: ComponentKind, id: &ComponentId) -> bool {
        self.is_delegated(kind, id) || (kind == ComponentKind::Extension && self.shared.contains(id))
    }

    /// Returns the names of the delegated components, such as `receivers::jaeger`.
    pub fn names(&self) -> Vec<String> {
        self.delegated.iter().map(|(kind, id)| format!("{}::{id}", kind.section())).collect()
    }
}

/// Chooses the components that this collector lacks and the child has; then those that use a delegated extension, since an
/// extension serves the components of its own process; then the extensions that delegated components use.
pub fn choose(
    sections: &Sections<'_>,
    lacks: impl Fn(ComponentKind, &ComponentId) -> bool,
    is_in_child: impl Fn(ComponentKind, &str) -> bool,
) -> Chosen {
    let can = |c: &&Configured<'_>| is_in_child(c.kind, c.id.kind());
    let lacking = sections.components.iter().filter(|c| lacks(c.kind, &c.id)).filter(can);
    let mut delegated: BTreeSet<_> = lacking.map(|c| (c.kind, c.id.clone())).collect();
    loop {
        let joins = |c: &&Configured<'_>| {
            !delegated.contains(&(c.kind, c.id.clone()))
                && delegated.iter().any(|(kind, id)| *kind == ComponentKind::Extension && uses(c, id))
        };
        let Some(next) = sections.components.iter().filter(can).find(joins) else { break };
        delegated.insert((next.kind, next.id.clone()));
    }
    add_extensions(sections, delegated)
}

/// Adds the extensions that delegated components use. One that no other component uses is not run by this collector.
fn add_extensions(sections: &Sections<'_>, mut delegated: BTreeSet<(ComponentKind, ComponentId)>) -> Chosen {
    let mut shared = BTreeSet::new();
    loop {
        let in_child = |c: &&Configured<'_>| {
            delegated.contains(&(c.kind, c.id.clone()))
                || (c.kind == ComponentKind::Extension && shared.contains(&c.id))
        };
        let used = |e: &&Configured<'_>| {
            !in_child(e) && sections.components.iter().filter(in_child).any(|c| uses(c, &e.id))
        };
        let Some(next) = sections.of(ComponentKind::Extension).find(used) else { break };
        let is_used_here = sections.components.iter().filter(|c| !in_child(c)).any(|c| uses(c, &next.id));
        match is_used_here {
            true => shared.insert(next.id.clone()),
            false => delegated.insert((next.kind, next.id.clone())),
        };
    }
    Chosen { delegated, shared }
}

fn uses(component: &Configured<'_>, extension: &ComponentId) -> bool {
    component.node.mentions(&extension.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::tree;

    /// Returns the delegated components, and after a bar the shared extensions.
    fn chosen(components: &str) -> String {
        let root = tree(&format!("{components}service: {{}}\n"));
        let sections = Sections::read(&root);
        let chosen = choose(&sections, |_, id| id.kind().starts_with("go"), |_, name| name != "go_not");
        let shared: Vec<String> = chosen.shared.iter().map(ToString::to_string).collect();
        format!("{}|{}", chosen.names().join(" "), shared.join(" "))
    }

    #[test]
    fn components_that_only_the_child_has_are_delegated() {
        let text = "receivers: {own: , go: , go_not: }\nprocessors: {go/x: }\n";
        assert_eq!(chosen(text), "processors::go/x receivers::go|");
    }

    #[test]
    fn users_of_a_delegated_extension_are_delegated() {
        let text = "extensions: {go: }\nexporters: {own: {auth: {authenticator: go}}, own/b: }\n";
        assert_eq!(chosen(text), "exporters::own extensions::go|");
    }

    #[test]
    fn extensions_follow_the_components_that_use_them() {
        let text = "extensions: {store: , other: }\nexporters: {go: {storage: store}}\n";
        assert_eq!(chosen(text), "exporters::go extensions::store|");
        let text = "extensions: {store: }\nexporters: {go: {storage: store}, own: {storage: store}}\n";
        assert_eq!(chosen(text), "exporters::go|store");
        let text = "extensions: {a: {b: b}, b: }\nexporters: {go: {storage: a}}\n";
        assert_eq!(chosen(text), "exporters::go extensions::a extensions::b|");
    }
}
