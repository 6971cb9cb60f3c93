//! EC2, by its metadata server (IMDSv2, with version 1 as the second choice), and ECS, by the endpoint of task metadata.

use http::Method;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use serde::Deserialize;

use super::{Answer, Missing, Platform, Settings, World, first, fixed, known};
use crate::resource_detection::http::{Api, ApiError};
use crate::resource_detection::{text, texts};

/// The detector `ec2`.
pub(super) const EC2: Platform = Platform {
    name: "ec2",
    attributes: &[
        ("cloud.account.id", true),
        ("cloud.availability_zone", true),
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("cloud.region", true),
        ("host.id", true),
        ("host.image.id", true),
        ("host.name", true),
        ("host.type", true),
    ],
    detect: |world, settings| Box::pin(ec2(world, settings)),
};

/// The detector `ecs`.
pub(super) const ECS: Platform = Platform {
    name: "ecs",
    attributes: &[
        ("aws.ecs.cluster.arn", true),
        ("aws.ecs.launchtype", true),
        ("aws.ecs.task.arn", true),
        ("aws.ecs.task.family", true),
        ("aws.ecs.task.id", true),
        ("aws.ecs.task.revision", true),
        ("aws.log.group.arns", true),
        ("aws.log.group.names", true),
        ("aws.log.stream.arns", true),
        ("aws.log.stream.names", true),
        ("cloud.account.id", true),
        ("cloud.availability_zone", true),
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("cloud.region", true),
    ],
    detect: |world, _| Box::pin(ecs(world)),
};

/// How long a token of the metadata server is valid, in seconds.
const TOKEN_SECONDS: &str = "21600";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    account_id: String,
    availability_zone: String,
    image_id: String,
    instance_id: String,
    instance_type: String,
    region: String,
}

async fn ec2(world: &World, settings: &Settings) -> Answer {
    let server = first(imds(world)).await?;
    first(server.text("/latest/meta-data/instance-id")).await?;
    let of: Identity = server.get("/latest/dynamic/instance-identity/document").await?;
    let host = server.text("/latest/meta-data/hostname").await?;
    let mut attributes = known([
        ("cloud.provider", fixed("aws")),
        ("cloud.platform", fixed("aws_ec2")),
        ("cloud.region", Some(of.region)),
        ("cloud.account.id", Some(of.account_id)),
        ("cloud.availability_zone", Some(of.availability_zone)),
        ("host.id", Some(of.instance_id)),
        ("host.image.id", Some(of.image_id)),
        ("host.type", Some(of.instance_type)),
        ("host.name", Some(host)),
    ]);
    if !settings.tags.is_empty() {
        let keys = server.text("/latest/meta-data/tags/instance").await?;
        for key in keys.lines().filter(|key| settings.has_tag(key)) {
            let value = server.text(&format!("/latest/meta-data/tags/instance/{key}")).await?;
            attributes.push(text(&format!("ec2.tag.{key}"), value));
        }
    }
    Ok(attributes)
}

/// Returns the metadata server with a token; without one if it gives none, as version 1 does.
async fn imds(world: &World) -> Result<Api, ApiError> {
    let failed = |reason| ApiError::failed(Method::PUT, "/latest/api/token", reason);
    let plain = World::api(&world.metadata, &[("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS)]);
    match plain.map_err(failed)?.put("/latest/api/token").await {
        Ok(token) => {
            World::api(&world.metadata, &[("x-aws-ec2-metadata-token", token.trim())]).map_err(failed)
        }
        Err(ApiError::Status { .. }) => World::api(&world.metadata, &[]).map_err(failed),
        Err(error) => Err(error),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Task {
    availability_zone: String,
    cluster: String,
    containers: Vec<Container>,
    family: String,
    launch_type: String,
    revision: String,
    #[serde(rename = "TaskARN")]
    task_arn: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Container {
    docker_id: String,
    known_status: String,
    log_driver: String,
    log_options: LogOptions,
    r#type: String,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default)]
struct LogOptions {
    #[serde(rename = "awslogs-group")]
    group: String,
    #[serde(rename = "awslogs-region")]
    region: String,
    #[serde(rename = "awslogs-stream")]
    stream: String,
}

/// Variables with the address of the endpoint, the newest version first.
const ENDPOINTS: [&str; 2] = ["ECS_CONTAINER_METADATA_URI_V4", "ECS_CONTAINER_METADATA_URI"];

async fn ecs(world: &World) -> Answer {
    let endpoint = ENDPOINTS.iter().find_map(|name| world.variable(name));
    let endpoint = endpoint.ok_or_else(|| Missing::Absent(format!("{} is not set", ENDPOINTS[0])))?;
    let server = World::api(endpoint.trim_end_matches('/'), &[]).map_err(Missing::Failed)?;
    let task: Task = server.get("/task").await?;
    let own: Option<Container> = server.get("").await.ok();
    let arn: Vec<&str> = task.task_arn.split(':').collect();
    // arn:aws:ecs:<region>:<account>:task/<cluster>/<id>, before 2018 without the cluster.
    let [region, account] = [3, 4].map(|at| arn.get(at).copied().unwrap_or_default().to_owned());
    let id = arn.get(5).and_then(|task| task.rsplit('/').next()).map(str::to_owned);
    let cluster = match task.cluster.contains(':') {
        true => task.cluster.clone(),
        false => format!("arn:aws:ecs:{region}:{account}:cluster/{}", task.cluster),
    };
    let launch = task.launch_type.to_lowercase();
    let mut attributes = known([
        ("cloud.provider", fixed("aws")),
        ("cloud.platform", fixed("aws_ecs")),
        ("aws.ecs.task.arn", Some(task.task_arn.clone())),
        ("aws.ecs.task.family", Some(task.family.clone())),
        ("aws.ecs.task.revision", Some(task.revision.clone())),
        ("aws.ecs.task.id", id),
        ("aws.ecs.cluster.arn", Some(cluster)),
        ("aws.ecs.launchtype", Some(launch).filter(|l| matches!(l.as_str(), "ec2" | "fargate"))),
        ("cloud.availability_zone", Some(task.availability_zone.clone())),
        ("cloud.region", Some(region)),
        ("cloud.account.id", Some(account.clone())),
    ]);
    if let Some(own) = own {
        attributes.extend(logs(&task.containers, &own, &account));
    }
    Ok(attributes)
}

/// Returns the log groups and streams of the other running containers of the task, in CloudWatch.
fn logs(containers: &[Container], own: &Container, account: &str) -> Vec<KeyValue> {
    let has_logs = |c: &&Container| {
        c.r#type == "NORMAL"
            && c.known_status == "RUNNING"
            && c.log_driver == "awslogs"
            && c.docker_id != own.docker_id
            && c.log_options != LogOptions::default()
    };
    let all: Vec<&LogOptions> = containers.iter().filter(has_logs).map(|c| &c.log_options).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let group = |l: &LogOptions| format!("arn:aws:logs:{}:{account}:log-group:{}", l.region, l.group);
    let list = |of: &dyn Fn(&LogOptions) -> String| all.iter().map(|l| of(l)).collect();
    vec![
        texts("aws.log.group.names", list(&|l| l.group.clone())),
        texts("aws.log.group.arns", list(&group)),
        texts("aws.log.stream.names", list(&|l| l.stream.clone())),
        texts("aws.log.stream.arns", list(&|l| format!("{}:log-stream:{}", group(l), l.stream))),
    ]
}
