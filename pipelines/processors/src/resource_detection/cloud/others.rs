//! Platforms that set variables or write files: Lambda, Elastic Beanstalk, Heroku, Dynatrace.

use serde::Deserialize;

use super::{Answer, Missing, Platform, World, fixed, known};
use crate::resource_detection::{text, texts};

/// The detector `lambda`.
pub(super) const LAMBDA: Platform = Platform {
    name: "lambda",
    attributes: &[
        ("aws.log.group.names", true),
        ("aws.log.stream.names", true),
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("cloud.region", true),
        ("faas.instance", true),
        ("faas.max_memory", true),
        ("faas.name", true),
        ("faas.version", true),
    ],
    detect: |world, _| Box::pin(std::future::ready(lambda(world))),
};

/// The detector `elastic_beanstalk`.
pub(super) const ELASTIC_BEANSTALK: Platform = Platform {
    name: "elastic_beanstalk",
    attributes: &[
        ("cloud.platform", true),
        ("cloud.provider", true),
        ("deployment.environment", true),
        ("deployment.environment.name", true),
        ("deployment.id", true),
        ("service.instance.id", true),
        ("service.version", true),
    ],
    detect: |world, _| Box::pin(std::future::ready(elastic_beanstalk(world))),
};

/// The detector `heroku`.
pub(super) const HEROKU: Platform = Platform {
    name: "heroku",
    attributes: &[
        ("cloud.provider", true),
        ("heroku.app.id", true),
        ("heroku.dyno.id", true),
        ("heroku.release.commit", true),
        ("heroku.release.creation_timestamp", true),
        ("service.instance.id", true),
        ("service.name", true),
        ("service.version", true),
    ],
    detect: |world, _| Box::pin(std::future::ready(heroku(world))),
};

/// The detector `dynatrace`, whose attributes cannot be switched off.
pub(super) const DYNATRACE: Platform = Platform {
    name: "dynatrace",
    attributes: &[],
    detect: |world, _| Box::pin(std::future::ready(dynatrace(world))),
};

fn lambda(world: &World) -> Answer {
    let name = world.variable("AWS_LAMBDA_FUNCTION_NAME");
    let name = name.ok_or_else(|| Missing::Absent("AWS_LAMBDA_FUNCTION_NAME is not set".to_owned()))?;
    let stream = world.variable("AWS_LAMBDA_LOG_STREAM_NAME");
    let mut attributes = known([
        ("cloud.provider", fixed("aws")),
        ("cloud.platform", fixed("aws_lambda")),
        ("cloud.region", world.variable("AWS_REGION")),
        ("faas.name", Some(name)),
        ("faas.version", world.variable("AWS_LAMBDA_FUNCTION_VERSION")),
        ("faas.instance", stream.clone()),
        ("faas.max_memory", world.variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")),
    ]);
    let group = world.variable("AWS_LAMBDA_LOG_GROUP_NAME");
    attributes.extend(group.map(|group| texts("aws.log.group.names", vec![group])));
    attributes.extend(stream.map(|stream| texts("aws.log.stream.names", vec![stream])));
    Ok(attributes)
}

/// The environment as the daemon of X-Ray reads it.
#[derive(Deserialize)]
struct Environment {
    deployment_id: i64,
    environment_name: String,
    version_label: String,
}

fn elastic_beanstalk(world: &World) -> Answer {
    let path = "/var/elasticbeanstalk/xray/environment.conf";
    let text = world.read(path)?.ok_or_else(|| Missing::Absent(format!("there is no {path}")))?;
    let of: Environment = serde_json::from_str(&text).map_err(|e| Missing::Failed(format!("{path}: {e}")))?;
    // By the conventions that the Collector uses unless a feature gate selects newer ones.
    Ok(known([
        ("cloud.provider", fixed("aws")),
        ("cloud.platform", fixed("aws_elastic_beanstalk")),
        ("service.instance.id", Some(of.deployment_id.to_string())),
        ("deployment.environment", Some(of.environment_name)),
        ("service.version", Some(of.version_label)),
    ]))
}

fn heroku(world: &World) -> Answer {
    let [app, dyno] = ["HEROKU_APP_ID", "HEROKU_DYNO_ID"].map(|name| world.variable(name));
    if app.is_none() && dyno.is_none() {
        return Err(Missing::Absent("HEROKU_APP_ID and HEROKU_DYNO_ID are not set".to_owned()));
    }
    Ok(known([
        ("cloud.provider", app.as_ref().map(|_| "heroku".to_owned())),
        ("heroku.app.id", app),
        ("service.instance.id", dyno),
        ("service.name", world.variable("HEROKU_APP_NAME")),
        ("heroku.release.creation_timestamp", world.variable("HEROKU_RELEASE_CREATED_AT")),
        ("service.version", world.variable("HEROKU_RELEASE_VERSION")),
        ("heroku.release.commit", world.variable("HEROKU_SLUG_COMMIT")),
    ]))
}

/// Keys of the file that are attributes.
const PROPERTIES: [&str; 3] = ["dt.entity.host", "dt.smartscape.host", "host.name"];

fn dynatrace(world: &World) -> Answer {
    let file = world.read("/var/lib/dynatrace/enrichment/dt_host_metadata.properties")?.unwrap_or_default();
    let pairs = file.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(key, value)| (key.trim(), value.trim()));
    let known = pairs.filter(|(key, value)| PROPERTIES.contains(key) && !value.is_empty());
    Ok(known.map(|(key, value)| text(key, value)).collect())
}
