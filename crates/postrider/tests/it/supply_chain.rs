//! What the project promises about its builds and dependencies is what its files do.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files of a folder that are written by people.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() && !matches!(&*name, "target" | "node_modules" | "dist" | ".git" | ".services" | "decisions") {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// S26: every build in the makefile, the scripts, the workflows, the container files and the documents uses Cargo.lock as it is.
#[test]
fn every_build_is_locked() {
    let mut found = Vec::new();
    files(&root(), &mut found);
    let mut commands = 0;
    for file in found {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let is_recipe = matches!(name, "Makefile" | "Dockerfile") || matches!(folder, "scripts" | ".ci" | "workflows");
        if !is_recipe && !matches!(file.extension().and_then(|one| one.to_str()), Some("md" | "toml")) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for line in text.lines().map(str::trim) {
            // In a document, a command is behind the prompt; elsewhere a comment is none.
            let line = if is_recipe { line } else { line.strip_prefix("$ ").unwrap_or_default() };
            let line = line.split("## ").next().unwrap_or_default();
            let builds = ["build", "check", "clippy", "doc", "install", "nextest run", "run", "test", "deny", "tree"];
            let is_build = |part: &str| builds.iter().any(|verb| part.trim_start().starts_with(&format!("{verb} ")));
            let is_comment = is_recipe && line.starts_with('#');
            for part in line.split("cargo ").skip(1).filter(|_| !is_comment) {
                let part = part
                    .split_once(' ')
                    .filter(|(toolchain, _)| toolchain.starts_with('+'))
                    .map_or(part, |(_, rest)| rest);
                if is_build(part) {
                    commands += 1;
                    assert!(part.contains("--locked"), "{}: {line}", file.display());
                }
            }
        }
    }
    assert!(commands > 20, "the commands were found: {commands}");
}

/// S26: each dependency is a version of the registry with its checksum, and `make deny` refuses others, those with a known
/// vulnerability and those without an allowed licence. CI runs it, and the rest of what is promised.
#[test]
fn dependencies_are_checked() {
    let lock = read("Cargo.lock");
    let packages: Vec<_> = lock.split("[[package]]").skip(1).collect();
    assert!(packages.len() > 200, "{}", packages.len());
    for package in packages {
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
        let ours = !package.contains("\nsource = ");
        assert!(!ours || name.starts_with("\"postrider"), "{name} has no source");
        assert!(ours || package.contains("\nchecksum = "), "{name} has no checksum");
        assert!(ours || package.contains("\nsource = \"registry+"), "{name}");
    }
    let deny = read("deny.toml");
    for rule in ["yanked = \"deny\"", "wildcards = \"deny\"", "unknown-registry = \"deny\"", "unknown-git = \"deny\""] {
        assert!(deny.contains(rule), "deny.toml has no {rule}");
    }
    assert!(!deny.contains("ignore = ["), "an advisory is ignored");
    let (ci, makefile) = (read(".github/workflows/ci.yml"), read("Makefile"));
    for target in ["lint", "msrv", "features", "deny", "unused", "semver", "release"] {
        assert!(ci.contains(&format!("run: make {target}\n")), "CI does not run make {target}");
        assert!(makefile.contains(&format!("\n{target}:")), "there is no make {target}");
    }
    assert!(ci.contains("bash .ci/run") && read(".ci/run").contains("\nmake test\n"));
}

/// S26: our crates contain no unsafe code.
#[test]
fn our_crates_forbid_unsafe_code() {
    assert!(read("Cargo.toml").contains("\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
    let mut manifests = 0;
    for folder in ["crates", "examples", "reference"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
            let manifest = entry.expect("an entry").path().join("Cargo.toml");
            let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
            manifests += 1;
            let forbidden = text.contains("\n[lints]\nworkspace = true") || text.contains("unsafe_code = \"forbid\"");
            assert!(forbidden, "{} does not forbid unsafe code", manifest.display());
        }
    }
    assert!(manifests > 8 && read("bench/Cargo.toml").contains("unsafe_code = \"forbid\""), "{manifests}");
}

/// S26: the bill of materials has every crate of the executable, as Cargo.lock has it, and nothing that only tests use.
#[test]
fn the_bill_of_materials_is_that_of_the_executable() {
    let made = Command::new(root().join("scripts/sbom")).env("CARGO", env!("CARGO")).output().expect("python3 runs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let bill: serde_json::Value = serde_json::from_slice(&made.stdout).expect("is JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "postrider");
    let lock = read("Cargo.lock");
    let components = bill["components"].as_array().expect("a list");
    let mut names = Vec::new();
    for component in components {
        let (name, version) =
            (component["name"].as_str().expect("a name"), component["version"].as_str().expect("one"));
        if component["purl"].as_str().expect("one").starts_with("pkg:cargo/") {
            let locked = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&locked), "{name} {version} is not in Cargo.lock");
            names.push(name);
        }
        let has_hash =
            component["hashes"][0]["content"].as_str().is_some_and(|hash| lock.contains(hash) || hash.len() == 128);
        assert!(has_hash || name.starts_with("postrider"), "{name} has no checksum");
        assert!(component["licenses"][0]["expression"].is_string(), "{name} has no licence");
    }
    for name in ["postrider", "postrider-server", "tokio", "sqlx-core", "rustls", "libsqlite3-sys"] {
        assert!(names.contains(&name), "{name} is left out");
    }
    for name in ["proptest", "postrider-proof", "postrider-conformance", "rusty-fork"] {
        assert!(!names.contains(&name), "{name} is only for tests");
    }
}

/// S26: who reports a vulnerability knows what happens when.
#[test]
fn a_report_of_a_vulnerability_has_times() {
    let page = read("SECURITY.md");
    for promised in ["within 48 hours", "within 7 days", "within 14 days"] {
        assert!(page.contains(promised), "SECURITY.md has no {promised}");
    }
    for file in [".github/ISSUE_TEMPLATE/bug.md", ".github/ISSUE_TEMPLATE/idea.md", ".github/pull_request_template.md"]
    {
        assert!(!read(file).is_empty());
    }
}
