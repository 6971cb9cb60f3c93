//! Virtual machines of Azure and nodes of AKS, by the instance metadata service.

use serde::Deserialize;

use super::{Answer, Missing, Platform, Settings, World, first, fixed, known};
use crate::resource_detection::text;

/// The detector `azure`.
pub(super) const AZURE: Platform = Platform {
    name: "azure",
    attributes: &[
        ("azure.resourcegroup.name", true),
        ("azure.vm.name", true),
        ("azure.vm.scaleset.name", true),
        ("azure.vm.size", true),
        ("cloud.account.id", true),
        ("cloud.availability_zone", false),
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("cloud.region", true),
        ("host.id", true),
        ("host.name", true),
    ],
    detect: |world, settings| Box::pin(azure(world, settings)),
};

/// The detector `aks`.
pub(super) const AKS: Platform = Platform {
    name: "aks",
    attributes: &[("cloud.platform", true), ("cloud.provider", true), ("k8s.cluster.name", false)],
    detect: |world, _| Box::pin(aks(world)),
};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Compute {
    location: String,
    name: String,
    os_profile: OsProfile,
    resource_group_name: String,
    subscription_id: String,
    tags_list: Vec<Tag>,
    vm_id: String,
    vm_scale_set_name: String,
    vm_size: String,
    zone: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OsProfile {
    computer_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tag {
    name: String,
    value: String,
}

/// Asks the service for the machine.
async fn compute(world: &World) -> Result<Compute, Missing> {
    let server = World::api(&world.metadata, &[("metadata", "true")]).map_err(Missing::Failed)?;
    first(server.get("/metadata/instance/compute?format=json&api-version=2020-09-01")).await
}

async fn azure(world: &World, settings: &Settings) -> Answer {
    let of = compute(world).await?;
    // Machines of specialized disks have no name in their profile.
    let host = if of.os_profile.computer_name.is_empty() { &of.name } else { &of.os_profile.computer_name };
    let mut attributes = known([
        ("cloud.provider", fixed("azure")),
        ("cloud.platform", fixed("azure.vm")),
        ("host.name", Some(host.clone())),
        ("cloud.region", Some(of.location)),
        ("host.id", Some(of.vm_id)),
        ("cloud.account.id", Some(of.subscription_id)),
        ("cloud.availability_zone", Some(of.zone)),
        ("azure.vm.name", Some(of.name)),
        ("azure.vm.size", Some(of.vm_size)),
        ("azure.vm.scaleset.name", Some(of.vm_scale_set_name)),
        ("azure.resourcegroup.name", Some(of.resource_group_name)),
    ]);
    let tags = of.tags_list.into_iter().filter(|tag| settings.has_tag(&tag.name));
    attributes.extend(tags.map(|tag| text(&format!("azure.tag.{}", tag.name), tag.value)));
    Ok(attributes)
}

async fn aks(world: &World) -> Answer {
    if world.variable("KUBERNETES_SERVICE_HOST").is_none() {
        return Ok(Vec::new());
    }
    let of = compute(world).await?;
    Ok(known([
        ("cloud.provider", fixed("azure")),
        ("cloud.platform", fixed("azure.aks")),
        ("k8s.cluster.name", Some(cluster(&of.resource_group_name))),
    ]))
}

/// Returns the name of the cluster in a generated resource group, `MC_<group>_<cluster>_<location>`; another group names the cluster
/// itself, since a cluster has a group of its own.
fn cluster(group: &str) -> String {
    match group.split('_').collect::<Vec<_>>()[..] {
        [mc, _, cluster, _] if mc.eq_ignore_ascii_case("mc") => cluster.to_owned(),
        _ => group.to_owned(),
    }
}
