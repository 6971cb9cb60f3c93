//! Google Cloud, by its metadata server: virtual machines (GCE), nodes of GKE, Cloud Run and Cloud Functions.

use super::{Answer, Missing, Platform, World, first, fixed, known};
use crate::resource_detection::http::Api;

/// The detector `gcp`.
pub(super) const GCP: Platform = Platform {
    name: "gcp",
    attributes: &[
        ("cloud.account.id", true),
        ("cloud.availability_zone", true),
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("cloud.region", true),
        ("faas.instance", true),
        ("faas.name", true),
        ("faas.version", true),
        ("gcp.cloud_run.job.execution", true),
        ("gcp.cloud_run.job.task_index", true),
        ("gcp.gce.instance.hostname", false),
        ("gcp.gce.instance.name", false),
        ("gcp.gce.instance_group_manager.name", true),
        ("gcp.gce.instance_group_manager.region", true),
        ("gcp.gce.instance_group_manager.zone", true),
        ("host.id", true),
        ("host.name", true),
        ("host.type", true),
        ("k8s.cluster.name", true),
    ],
    detect: |world, _| Box::pin(gcp(world)),
};

type Pairs = Vec<(&'static str, Option<String>)>;

async fn gcp(world: &World) -> Answer {
    let server = World::api(&world.google, &[("metadata-flavor", "Google")]).map_err(Missing::Failed)?;
    let project = first(server.text("/computeMetadata/v1/project/project-id")).await?;
    let mut pairs = vec![("cloud.provider", fixed("gcp")), ("cloud.account.id", Some(project))];
    pairs.extend(platform(world, &Metadata(server)).await?);
    Ok(known(pairs))
}

async fn platform(world: &World, metadata: &Metadata) -> Result<Pairs, Missing> {
    let cluster = metadata.get("instance/attributes/cluster-name").await;
    match (world.variable("KUBERNETES_SERVICE_HOST"), cluster, world.variable("K_CONFIGURATION")) {
        (Some(_), Some(cluster), _) => Ok(gke(metadata, cluster).await),
        (_, _, Some(_)) => Ok(function(world, metadata).await),
        _ if world.variable("CLOUD_RUN_JOB").is_some() => Ok(job(world, metadata).await),
        _ => gce(metadata).await,
    }
}

async fn gke(metadata: &Metadata, cluster: String) -> Pairs {
    // A regional cluster has no zone: us-central1, us-central1-a.
    let place = metadata.get("instance/attributes/cluster-location").await.unwrap_or_default();
    let is_zone = place.matches('-').count() == 2;
    vec![
        ("cloud.platform", fixed("gcp_kubernetes_engine")),
        (if is_zone { "cloud.availability_zone" } else { "cloud.region" }, Some(place)),
        ("k8s.cluster.name", Some(cluster)),
        ("host.id", metadata.get("instance/id").await),
        // Not available with workload identity.
        ("host.name", metadata.get("instance/name").await),
    ]
}

async fn function(world: &World, metadata: &Metadata) -> Pairs {
    let is_function = world.variable("FUNCTION_TARGET").is_some();
    vec![
        ("cloud.platform", fixed(if is_function { "gcp_cloud_functions" } else { "gcp_cloud_run" })),
        ("faas.name", world.variable("K_SERVICE")),
        ("faas.version", world.variable("K_REVISION")),
        ("faas.instance", metadata.get("instance/id").await),
        ("cloud.region", metadata.get("instance/region").await.map(last)),
    ]
}

async fn job(world: &World, metadata: &Metadata) -> Pairs {
    vec![
        ("cloud.platform", fixed("gcp_cloud_run")),
        ("faas.name", world.variable("CLOUD_RUN_JOB")),
        ("faas.instance", metadata.get("instance/id").await),
        ("cloud.region", metadata.get("instance/region").await.map(last)),
        ("gcp.cloud_run.job.execution", world.variable("CLOUD_RUN_EXECUTION")),
        ("gcp.cloud_run.job.task_index", world.variable("CLOUD_RUN_TASK_INDEX")),
    ]
}

async fn gce(metadata: &Metadata) -> Result<Pairs, Missing> {
    let zone = metadata.get("instance/zone").await.map(last);
    let region = zone.as_deref().and_then(|zone| Some(zone.rsplit_once('-')?.0.to_owned()));
    let mut pairs = vec![
        ("cloud.platform", fixed("gcp_compute_engine")),
        ("cloud.availability_zone", zone),
        ("cloud.region", region),
        ("host.type", metadata.get("instance/machine-type").await),
        ("host.id", metadata.get("instance/id").await),
        ("host.name", metadata.get("instance/name").await),
        ("gcp.gce.instance.hostname", metadata.get("instance/hostname").await),
        ("gcp.gce.instance.name", metadata.get("instance/name").await),
    ];
    pairs.extend(group(&metadata.get("instance/attributes/created-by").await.unwrap_or_default()));
    Ok(pairs)
}

/// Returns the managed instance group of `projects/<number>/zones/<zone>/instanceGroupManagers/<name>`, or of `regions`.
fn group(created_by: &str) -> Pairs {
    match created_by.split('/').collect::<Vec<_>>()[..] {
        ["projects", _, kind, place, "instanceGroupManagers", name] => {
            let key = match kind {
                "zones" => "gcp.gce.instance_group_manager.zone",
                _ => "gcp.gce.instance_group_manager.region",
            };
            vec![("gcp.gce.instance_group_manager.name", fixed(name)), (key, fixed(place))]
        }
        _ => Vec::new(),
    }
}

/// Returns the last part of a path such as `projects/1/zones/us-central1-a`.
fn last(path: String) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

struct Metadata(Api);

impl Metadata {
    /// Returns a value; none if the server does not have it.
    async fn get(&self, path: &str) -> Option<String> {
        let text = self.0.text(&format!("/computeMetadata/v1/{path}")).await.ok()?;
        Some(text.trim().to_owned())
    }
}
