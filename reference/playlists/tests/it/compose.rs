//! `compose.yaml` and the files beside it: everything that they name exists. No Docker is needed for that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_yaml_ng::Value;
use tokio::process::Command;

/// The services that run our program.
const SERVICES: [&str; 3] = ["playlists", "songs", "users"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn compose() -> Value {
    let mut file: Value = serde_yaml_ng::from_str(&read(&folder().join("compose.yaml"))).unwrap();
    file.apply_merge().unwrap();
    file
}

fn texts(value: &Value) -> Vec<String> {
    value.as_sequence().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_mapping().unwrap().keys().map(|key| key.as_str().unwrap()).collect()
}

/// E.3: the arguments and variables of each service are those of the program.
#[tokio::test]
async fn the_program_knows_every_flag_of_its_containers() {
    let file = compose();
    for service in SERVICES {
        let container = &file["services"][service];
        let arguments = texts(&container["command"]);
        // An unknown flag or value is refused before the help is printed.
        let program = Command::new(env!("CARGO_BIN_EXE_playlists")).args(&arguments).arg("--help").output();
        let help = program.await.unwrap();
        assert!(help.status.success(), "{service}: {}", String::from_utf8_lossy(&help.stderr));
        let help = String::from_utf8(help.stdout).unwrap();
        for variable in keys(&container["environment"]) {
            assert!(help.contains(&format!("[env: {variable}")), "{service}: the program does not read {variable}");
        }
        assert_eq!(arguments[..2], ["--service", service]);
    }
}

/// E.3: each service has a database of its own, and all have the same broker.
#[test]
fn every_address_of_a_container_is_another_container() {
    let file = compose();
    let services: BTreeSet<_> = keys(&file["services"]).into_iter().collect();
    assert_eq!(services, BTreeSet::from(["gateway", "playlists", "postgres", "rabbitmq", "songs", "users"]));
    let databases = file["configs"]["databases"]["content"].as_str().unwrap();
    let broker = &file["services"]["rabbitmq"]["environment"];
    let (user, password) = (&broker["RABBITMQ_DEFAULT_USER"], &broker["RABBITMQ_DEFAULT_PASS"]);
    for service in SERVICES {
        let environment = &file["services"][service]["environment"];
        assert_eq!(environment["PLAYLISTS_STORE"], format!("postgres://postgres@postgres/{service}"));
        assert!(databases.contains(&format!("CREATE DATABASE {service};")), "{databases}");
        let (user, password) = (user.as_str().unwrap(), password.as_str().unwrap());
        assert_eq!(environment["PLAYLISTS_BROKER"], format!("amqp://{user}:{password}@rabbitmq:5672/%2f"));
    }
    for service in &services {
        let container = &file["services"][service];
        for (needed, how) in container["depends_on"].as_mapping().into_iter().flatten() {
            let needed = needed.as_str().unwrap();
            assert!(services.contains(needed), "{service} needs {needed}");
            let has_check = file["services"][needed].get("healthcheck").is_some();
            assert!(how["condition"] == "service_started" || has_check, "{service}: {needed} has no health check");
        }
        for config in container["configs"].as_sequence().into_iter().flatten() {
            let source = config["source"].as_str().unwrap();
            assert!(file["configs"].get(source).is_some(), "{service}: there is no config {source}");
        }
    }
}

/// E.3: the gateway leads to all three services, at the port that they listen on.
#[test]
fn the_gateway_leads_to_every_service() {
    let file = compose();
    let gateway = read(&folder().join(file["configs"]["gateway"]["file"].as_str().unwrap()));
    for service in SERVICES {
        let listen = texts(&file["services"][service]["command"]);
        let listen = listen.iter().position(|word| word == "--listen").map(|at| listen[at + 1].clone()).unwrap();
        let port = listen.strip_prefix("0.0.0.0:").expect("reachable by the gateway");
        let block = gateway.split(&format!("location /{service}/ {{")).nth(1).expect("a path of the service");
        let block = block.split('}').next().unwrap();
        assert!(block.contains(&format!("set ${service} http://{service}:{port};")), "{block}");
        assert!(block.contains(&format!("proxy_pass ${service};")), "{block}");
    }
    assert_eq!(gateway.matches('{').count(), gateway.matches('}').count());
    let published = file["services"]["gateway"]["ports"][0].as_str().unwrap();
    let port = published.rsplit(':').next().unwrap();
    assert!(gateway.contains(&format!("listen {port};")), "{published}");
    let check = file["services"]["gateway"]["healthcheck"]["test"].as_str().unwrap();
    assert!(check.ends_with("/healthz") && gateway.contains("location = /healthz {"), "{check}");
}

/// E.3: the image is built from this package, and runs its program.
#[test]
fn the_image_has_the_program() {
    let file = compose();
    for service in SERVICES {
        let build = &file["services"][service]["build"];
        let root = folder().join(build["context"].as_str().unwrap()).canonicalize().unwrap();
        assert!(root.join("Cargo.lock").exists(), "the build needs the workspace");
        let dockerfile = read(&root.join(build["dockerfile"].as_str().unwrap()));
        let package = env!("CARGO_PKG_NAME");
        assert!(dockerfile.contains(&format!("cargo build --release --locked -p {package} --bin playlists")));
        assert!(dockerfile.contains("COPY --from=build /src/target/release/playlists /usr/local/bin/playlists"));
        assert!(dockerfile.contains("ENTRYPOINT [\"playlists\"]"));
        // The oldest compiler that the workspace accepts.
        let compiler = read(&root.join("Cargo.toml"));
        let compiler = compiler.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
        assert!(dockerfile.contains(&format!("FROM rust:{compiler}-")), "{compiler}");
    }
}
