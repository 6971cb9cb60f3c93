//! Each platform against a metadata server on loopback that answers as the cloud's documentation says, against its variables, or against
//! its files; and each on a machine that is none of them.

use std::path::Path;

use tokio::net::TcpListener;

use super::*;
use crate::resource_detection::tests::answer_each;

type Answer = (&'static str, &'static str);

/// Starts a server with answers by the begin of the request; others are answered 403. Returns its address.
async fn serve(answers: &[Answer]) -> String {
    let answers = answers.to_vec();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answer_each(stream, &answers).await;
        }
    });
    format!("http://{address}")
}

/// A world without metadata servers, variables and files.
fn nowhere() -> World {
    let closed = "http://127.0.0.1:1".to_owned();
    World { metadata: closed.clone(), google: closed, variable: |_| None, root: "/nonexistent".into() }
}

async fn detect(name: &str, world: World, settings: Settings) -> Result<Vec<String>, String> {
    let cloud = Cloud { platform: platform(name).unwrap(), settings, world };
    let shown = |a: &KeyValue| format!("{}={}", a.key, pdata::json::plain::text(a.value.as_ref()));
    let mut found: Vec<String> = cloud.detect().await?.attributes.iter().map(shown).collect();
    found.sort();
    Ok(found)
}

#[track_caller]
fn same(found: &[String], want: &str) {
    assert_eq!(found.join("\n"), want.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
}

const IDENTITY: (&str, &str) = (
    "GET /latest/dynamic/instance-identity/document ",
    r#"{"accountId":"123","architecture":"x86_64","availabilityZone":"us-west-2b","imageId":"ami-1","instanceId":"i-1","instanceType":"p5.48xlarge","region":"us-west-2","version":"2017-09-30"}"#,
);

const EC2: &str = "cloud.account.id=123
    cloud.availability_zone=us-west-2b
    cloud.platform=aws_ec2
    cloud.provider=aws
    cloud.region=us-west-2";

#[tokio::test]
async fn an_instance_of_ec2_is_detected_with_a_token_and_without() {
    let with_token = [
        ("PUT /latest/api/token ", "secret"),
        ("GET /latest/meta-data/instance-id ", "i-1"),
        IDENTITY,
        ("GET /latest/meta-data/hostname ", "ip-10-0-0-1.us-west-2.compute.internal"),
        ("GET /latest/meta-data/tags/instance ", "Name\nteam\nother"),
        ("GET /latest/meta-data/tags/instance/Name ", "gpu-1"),
        ("GET /latest/meta-data/tags/instance/team ", "ml"),
    ];
    let world = World { metadata: serve(&with_token).await, ..nowhere() };
    let tags = ["^Name$", "^t"].map(|tag| Regex::new(tag).unwrap()).to_vec();
    let found = detect("ec2", world, Settings { tags, ..Settings::default() }).await.unwrap();
    let host = "host.id=i-1\nhost.image.id=ami-1\nhost.name=ip-10-0-0-1.us-west-2.compute.internal\nhost.type=p5.48xlarge";
    same(&found, &format!("{EC2}\nec2.tag.Name=gpu-1\nec2.tag.team=ml\n{host}"));
    let without = [with_token[1], IDENTITY, with_token[3]];
    let world = World { metadata: serve(&without).await, ..nowhere() };
    let found = detect("ec2", world, Settings::default()).await.unwrap();
    same(&found, &format!("{EC2}\n{host}"));
}

#[tokio::test]
async fn an_incomplete_answer_is_retried() {
    let world =
        World { metadata: serve(&[("GET /latest/meta-data/instance-id ", "i-1")]).await, ..nowhere() };
    let error = detect("ec2", world, Settings::default()).await.unwrap_err();
    assert_eq!(error, "GET /latest/dynamic/instance-identity/document: 403 Forbidden");
}

#[tokio::test]
async fn a_task_of_ecs_is_detected_by_its_endpoint() {
    static ADDRESS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let task = r#"{"Cluster":"default","TaskARN":"arn:aws:ecs:us-west-2:111:task/default/158d","Family":"app","Revision":"5",
        "LaunchType":"FARGATE","AvailabilityZone":"us-west-2a","Containers":[
        {"DockerId":"a","Type":"NORMAL","KnownStatus":"RUNNING","LogDriver":"awslogs","LogOptions":{"awslogs-group":"/ecs/app","awslogs-region":"us-west-2","awslogs-stream":"ecs/app/1"}},
        {"DockerId":"own","Type":"NORMAL","KnownStatus":"RUNNING","LogDriver":"awslogs","LogOptions":{"awslogs-group":"/ecs/own","awslogs-region":"us-west-2","awslogs-stream":"s"}},
        {"DockerId":"b","Type":"CNI_PAUSE","KnownStatus":"RUNNING"}]}"#;
    let answers = [("GET /v4/1/task ", task), ("GET /v4/1 ", r#"{"DockerId":"own"}"#)];
    ADDRESS.set(format!("{}/v4/1", serve(&answers).await)).unwrap();
    let variable =
        |name: &str| (name == "ECS_CONTAINER_METADATA_URI_V4").then(|| ADDRESS.get().unwrap().clone());
    let found = detect("ecs", World { variable, ..nowhere() }, Settings::default()).await.unwrap();
    same(
        &found,
        r#"aws.ecs.cluster.arn=arn:aws:ecs:us-west-2:111:cluster/default
        aws.ecs.launchtype=fargate
        aws.ecs.task.arn=arn:aws:ecs:us-west-2:111:task/default/158d
        aws.ecs.task.family=app
        aws.ecs.task.id=158d
        aws.ecs.task.revision=5
        aws.log.group.arns=["arn:aws:logs:us-west-2:111:log-group:/ecs/app"]
        aws.log.group.names=["/ecs/app"]
        aws.log.stream.arns=["arn:aws:logs:us-west-2:111:log-group:/ecs/app:log-stream:ecs/app/1"]
        aws.log.stream.names=["ecs/app/1"]
        cloud.account.id=111
        cloud.availability_zone=us-west-2a
        cloud.platform=aws_ecs
        cloud.provider=aws
        cloud.region=us-west-2"#,
    );
}

const COMPUTE: &[Answer] = &[(
    "GET /metadata/instance/compute?format=json&api-version=2020-09-01 ",
    r#"{"location":"westeurope","name":"gpu-1","osProfile":{"computerName":""},"resourceGroupName":"MC_group_cluster_westeurope","subscriptionId":"s","tagsList":[{"name":"team","value":"ml"},{"name":"x","value":"y"}],"vmId":"v","vmScaleSetName":"","vmSize":"Standard_ND96","zone":"1"}"#,
)];

#[tokio::test]
async fn a_machine_of_azure_is_detected() {
    let world = World { metadata: serve(COMPUTE).await, ..nowhere() };
    let settings = Settings { tags: vec![Regex::new("^team$").unwrap()], ..Settings::default() };
    let found = detect("azure", world, settings).await.unwrap();
    same(
        &found,
        "azure.resourcegroup.name=MC_group_cluster_westeurope
        azure.tag.team=ml
        azure.vm.name=gpu-1
        azure.vm.size=Standard_ND96
        cloud.account.id=s
        cloud.platform=azure.vm
        cloud.provider=azure
        cloud.region=westeurope
        host.id=v
        host.name=gpu-1",
    );
}

#[tokio::test]
async fn a_node_of_aks_is_detected_in_a_cluster_only() {
    let metadata = serve(COMPUTE).await;
    let outside = World { metadata: metadata.clone(), ..nowhere() };
    assert_eq!(detect("aks", outside, Settings::default()).await.unwrap(), [] as [String; 0]);
    let variable = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned());
    let switches = serde_json::from_str(r#"{"k8s.cluster.name": {"enabled": true}}"#).unwrap();
    let world = World { metadata, variable, ..nowhere() };
    let found = detect("aks", world, Settings { switches, ..Settings::default() }).await.unwrap();
    same(&found, "cloud.platform=azure.aks\ncloud.provider=azure\nk8s.cluster.name=cluster");
}

const GOOGLE: &[Answer] = &[
    ("GET /computeMetadata/v1/project/project-id ", "p"),
    ("GET /computeMetadata/v1/instance/zone ", "projects/1/zones/us-central1-a"),
    ("GET /computeMetadata/v1/instance/machine-type ", "projects/1/machineTypes/a3-highgpu-8g"),
    ("GET /computeMetadata/v1/instance/id ", "42"),
    ("GET /computeMetadata/v1/instance/name ", "gpu-1"),
    ("GET /computeMetadata/v1/instance/hostname ", "gpu-1.c.p.internal"),
    (
        "GET /computeMetadata/v1/instance/attributes/created-by ",
        "projects/1/zones/us-central1-a/instanceGroupManagers/pool",
    ),
];

#[tokio::test]
async fn a_machine_of_google_is_detected() {
    let world = World { google: serve(GOOGLE).await, ..nowhere() };
    let found = detect("gcp", world, Settings::default()).await.unwrap();
    same(
        &found,
        "cloud.account.id=p
        cloud.availability_zone=us-central1-a
        cloud.platform=gcp_compute_engine
        cloud.provider=gcp
        cloud.region=us-central1
        gcp.gce.instance_group_manager.name=pool
        gcp.gce.instance_group_manager.zone=us-central1-a
        host.id=42
        host.name=gpu-1
        host.type=projects/1/machineTypes/a3-highgpu-8g",
    );
}

#[tokio::test]
async fn a_node_of_gke_and_a_service_of_cloud_run_are_detected() {
    let node = [
        GOOGLE[0],
        ("GET /computeMetadata/v1/instance/attributes/cluster-name ", "c"),
        ("GET /computeMetadata/v1/instance/attributes/cluster-location ", "us-central1"),
        GOOGLE[3],
    ];
    let variable = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned());
    let world = World { google: serve(&node).await, variable, ..nowhere() };
    let found = detect("gcp", world, Settings::default()).await.unwrap();
    same(
        &found,
        "cloud.account.id=p
        cloud.platform=gcp_kubernetes_engine
        cloud.provider=gcp
        cloud.region=us-central1
        host.id=42
        k8s.cluster.name=c",
    );
    let service =
        [GOOGLE[0], GOOGLE[3], ("GET /computeMetadata/v1/instance/region ", "projects/1/regions/us-east1")];
    let variable = |name: &str| match name {
        "K_CONFIGURATION" | "K_SERVICE" => Some("api".to_owned()),
        "K_REVISION" => Some("api-1".to_owned()),
        _ => None,
    };
    let world = World { google: serve(&service).await, variable, ..nowhere() };
    let found = detect("gcp", world, Settings::default()).await.unwrap();
    same(
        &found,
        "cloud.account.id=p
        cloud.platform=gcp_cloud_run
        cloud.provider=gcp
        cloud.region=us-east1
        faas.instance=42
        faas.name=api
        faas.version=api-1",
    );
}

#[tokio::test]
async fn variables_tell_lambda_and_heroku() {
    let variable = |name: &str| match name {
        "AWS_LAMBDA_FUNCTION_NAME" => Some("f".to_owned()),
        "AWS_LAMBDA_LOG_GROUP_NAME" => Some("/aws/lambda/f".to_owned()),
        "AWS_REGION" => Some("eu-west-1".to_owned()),
        _ => None,
    };
    let found = detect("lambda", World { variable, ..nowhere() }, Settings::default()).await.unwrap();
    same(
        &found,
        r#"aws.log.group.names=["/aws/lambda/f"]
        cloud.platform=aws_lambda
        cloud.provider=aws
        cloud.region=eu-west-1
        faas.name=f"#,
    );
    let variable =
        |name: &str| matches!(name, "HEROKU_APP_ID" | "HEROKU_RELEASE_VERSION").then(|| "v9".to_owned());
    let found = detect("heroku", World { variable, ..nowhere() }, Settings::default()).await.unwrap();
    same(&found, "cloud.provider=heroku\nheroku.app.id=v9\nservice.version=v9");
}

#[tokio::test]
async fn files_tell_elastic_beanstalk_and_dynatrace() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(Path::new(path));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "var/elasticbeanstalk/xray/environment.conf",
        r#"{"deployment_id": 23, "environment_name": "BETA", "version_label": "env-1", "noise": true}"#,
    );
    write(
        "var/lib/dynatrace/enrichment/dt_host_metadata.properties",
        "dt.entity.host=HOST-1\nhost.name = a=b\nother=x\nnoise\n",
    );
    let world = || World { root: dir.path().to_owned(), ..nowhere() };
    let found = detect("elastic_beanstalk", world(), Settings::default()).await.unwrap();
    same(
        &found,
        "cloud.platform=aws_elastic_beanstalk
        cloud.provider=aws
        deployment.environment=BETA
        service.instance.id=23
        service.version=env-1",
    );
    let found = detect("dynatrace", world(), Settings::default()).await.unwrap();
    same(&found, "dt.entity.host=HOST-1\nhost.name=a=b");
    write("var/elasticbeanstalk/xray/environment.conf", "{");
    let error = detect("elastic_beanstalk", world(), Settings::default()).await.unwrap_err();
    assert!(error.starts_with("/var/elasticbeanstalk/xray/environment.conf: "), "{error}");
}

#[tokio::test]
async fn an_absent_platform_has_no_attributes_unless_it_must_be_there() {
    for platform in &PLATFORMS {
        let found = detect(platform.name, nowhere(), Settings::default()).await;
        assert_eq!(found, Ok(Vec::new()), "{}", platform.name);
        let strict = Settings { is_strict: true, ..Settings::default() };
        let found = detect(platform.name, nowhere(), strict).await;
        // They depend on nothing but a cluster and a file.
        let is_lenient = ["aks", "dynatrace"].contains(&platform.name);
        assert_eq!(found.is_ok(), is_lenient, "{}: {found:?}", platform.name);
    }
}

/// A connection to an address that nothing answers at takes minutes by itself.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_no_metadata_server() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let metadata = format!("http://{}", silent.local_addr().unwrap());
    assert_eq!(detect("ec2", World { metadata, ..nowhere() }, Settings::default()).await, Ok(Vec::new()));
}

#[test]
fn platforms_are_sorted_and_unique() {
    assert!(PLATFORMS.iter().map(|platform| platform.name).is_sorted_by(|a, b| a < b));
}
