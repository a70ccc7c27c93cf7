//! Isolation at the boundary: rules in, tiers out.

use crate::types::{NativeIsolation, NativeSecret, NativeTiers};
use nacre_core::isolation::{Isolation, Tiers};
use nacre_core::proxy::{Hosts, ProgramHosts};
use nacre_core::questions::Ask;
use nacre_core::sandbox::Sandbox;
use nacre_egress::request_log;
use nacre_egress::{Origin, Place, Plan, Secret, Value};
use nacre_protocol::confinement::{Filesystem, Guarding, Mount, Network, ProjectFiles, Rules};
use napi::bindgen_prelude::{Error, Result};
use napi_derive::napi;
use std::path::PathBuf;
use std::time::Duration;

/// Converts rules from JavaScript.
pub fn rules(given: NativeIsolation) -> Isolation {
    let paths = |list: Vec<String>| list.into_iter().map(PathBuf::from).collect::<Vec<_>>();
    let log = given.log.map(PathBuf::from);
    let logs = log.iter().flat_map(|log| [log.clone(), request_log::old(log)]);
    let rules = Rules {
        filesystem: Filesystem {
            read: given.read.map(paths),
            write: paths(given.write),
            protect: paths(given.protect),
            hide: paths(given.hide).into_iter().chain(logs).collect(),
            mounts: given
                .mounts
                .into_iter()
                .map(|mount| Mount { source: mount.source.into(), target: mount.target.into() })
                .collect(),
            project: ProjectFiles::default(),
        },
        network: match given.network.as_str() {
            "closed" => Network::Closed,
            "proxy" => Network::Proxy,
            _ => Network::Open,
        },
        own_processes: given.own_processes,
        best_effort: given.best_effort,
        rules_file: given.rules_file.map(Into::into),
        explains: given.explain,
        learns: given.learn,
        guarding: match given.guarding.as_str() {
            "repository" => Guarding::WithRepository,
            "project" => Guarding::On,
            _ => Guarding::Off,
        },
        private_caches: given.private_caches,
    };
    let answerer = given.answerer;
    let ask = given.ask.map(|limit| Ask { limit: Duration::from_millis(limit.into()), answerer });
    let secrets = given.secrets.into_iter().map(secret).collect();
    let requests = given.requests.into_iter().filter_map(|one| Some((origin(one.host)?, one.rules))).collect();
    let handlers = given.handlers.into_iter().filter_map(|one| Some((origin(one.host)?, one.function))).collect();
    let plan = Plan { secrets, requests, handlers, authorities: given.authorities };
    let programs = given.programs.into_iter();
    let programs =
        programs.map(|one| ProgramHosts { name: one.name, allow: one.allow, files: paths(one.files) }).collect();
    Isolation { rules, hosts: Hosts { allow: given.allow, deny: given.deny, ask, programs, plan, log } }
}

fn origin(text: String) -> Option<Origin> {
    let (host, port) = text.rsplit_once(':')?;
    Some(Origin { host: host.into(), port: port.parse().ok()? })
}

fn secret(given: NativeSecret) -> Secret {
    let place = |text: String| match text.split_once(':') {
        Some(("header", name)) => Place::Header(name.into()),
        Some(("query", name)) => Place::Query(name.into()),
        _ if text == "body" => Place::Body,
        _ if text == "aws-signature" => Place::AwsSignature,
        _ => Place::Authorization,
    };
    Secret {
        name: given.name,
        value: given.function.map_or_else(|| Value::new(given.value), Value::Function),
        placeholder: given.placeholder,
        hosts: given.hosts.into_iter().filter_map(origin).collect(),
        places: given.places.into_iter().map(place).collect(),
        refresh: given.refresh.map(|limit| Duration::from_millis(limit.into())),
        programs: given.programs,
    }
}

/// Draws what commands get instead of a secret.
#[napi]
pub fn placeholder(value: String) -> Result<String> {
    nacre_egress::placeholder(&value).map_err(|error| Error::from_reason(error.to_string()))
}

/// What is wrong with a rule for requests, as the rest of a sentence about it.
#[napi]
pub fn check_rule(rule: String) -> Option<String> {
    nacre_egress::check_rule(&rule).err()
}

/// The mechanisms that enforce rules here; none if they cannot be determined.
pub fn tiers(sandbox: &Sandbox) -> NativeTiers {
    let none = |reason: String| Tiers {
        filesystem: "none",
        network: "none",
        processes: "none",
        trust: "variables",
        notes: vec![reason],
    };
    let found = sandbox.tiers().unwrap_or_else(|error| none(error.message));
    NativeTiers {
        filesystem: found.filesystem.into(),
        network: found.network.into(),
        processes: found.processes.into(),
        notes: found.notes,
        trust: found.trust.into(),
    }
}
