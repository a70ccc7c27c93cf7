//! Which variables of a session's config the machine's may get: those that git writes every day and that run no program.
//!
//! What a program writes there is hostile. So a value has a form in which git takes it for nothing else: a host, a path, a
//! name or a word. See transport.c and remote.c of git for what it makes of a URL and of the name of a remote.

use super::syntax::{Key, Value, Values};

/// Maximum bytes of a name.
const MAX_NAME: usize = 255;
/// Maximum bytes of a value, and values of a key.
const MAX_VALUE: usize = 1024;
const MAX_VALUES: usize = 32;

/// Whether the machine's config may get these values of a key. `real` is what it has, with the other changes.
pub fn is_allowed(key: &Key, values: &[Value], real: &Values) -> bool {
    let Some(own) = key.subsection.as_deref() else { return false };
    let (section, name) = (key.section.as_str(), key.name.as_str());
    let is_single = values.len() <= 1;
    let all = |is_good: &dyn Fn(&str) -> bool| {
        values.len() <= MAX_VALUES && values.iter().all(|value| value.as_deref().is_some_and(is_good))
    };
    // A URL is a network's. What leads to one does not lead to a directory afterwards, which programs may have made.
    let is_url = |url: &str| is_remote_url(url) || (is_path(url) && real.get(key).is_none_or(Vec::is_empty));
    match (section, name) {
        ("remote", "url") => is_remote(own) && all(&is_url),
        ("remote", "fetch") => is_remote(own) && all(&is_refspec),
        ("remote", "tagopt") => is_remote(own) && is_single && all(&|word| ["--tags", "--no-tags"].contains(&word)),
        ("branch", "remote") => is_name(own) && is_single && all(&|name| name == "." || is_configured(name, real)),
        ("branch", "merge") => is_name(own) && all(&is_reference),
        ("branch", "rebase") => is_name(own) && is_single && all(&|word| ["true", "false", "merges"].contains(&word)),
        ("submodule", "url") => is_submodule(own) && is_single && all(&is_url),
        ("submodule", "active") => is_submodule(own) && is_single && all(&|word| ["true", "false"].contains(&word)),
        ("submodule", "update") => {
            let words = ["checkout", "rebase", "merge", "none"];
            is_submodule(own) && is_single && all(&|word| words.contains(&word))
        }
        _ => false,
    }
}

/// Git takes the name of a remote without a URL for a URL, and one like a URL in the place of that.
fn is_configured(name: &str, real: &Values) -> bool {
    let url = Key { section: "remote".into(), subsection: Some(name.into()), name: "url".into() };
    is_remote(name) && real.get(&url).is_some_and(|urls| !urls.is_empty())
}

/// No option, and nothing that needs quotes.
fn is_printable(text: &str, most: usize) -> bool {
    !text.is_empty()
        && text.len() <= most
        && !text.starts_with('-')
        && text.trim() == text
        && !text.chars().any(|letter| letter.is_control() || matches!(letter, '"' | '\\'))
}

fn is_name(name: &str) -> bool {
    is_printable(name, MAX_NAME)
}

fn is_remote(name: &str) -> bool {
    is_name(name) && !name.starts_with(['.', '/']) && !name.contains([':', ' ']) && has_no_parents(name)
}

fn is_submodule(name: &str) -> bool {
    is_name(name) && !name.starts_with('/') && !name.contains(':') && has_no_parents(name)
}

fn has_no_parents(name: &str) -> bool {
    name.split('/').all(|part| part != "..")
}

fn is_reference(name: &str) -> bool {
    name.starts_with("refs/") && is_printable(name, MAX_VALUE) && !name.contains([' ', ':']) && has_no_parents(name)
}

fn is_refspec(refspec: &str) -> bool {
    let plain = refspec.strip_prefix(['+', '^']).unwrap_or(refspec);
    is_printable(plain, MAX_VALUE) && !plain.contains(' ') && plain.split(':').count() <= 2
}

/// https, ssh or git. Nothing else: an unknown scheme names a program.
fn is_remote_url(url: &str) -> bool {
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains("::") && !url.contains("%0");
    if !is_printable(url, MAX_VALUE) || !is_plain {
        return false;
    }
    match url.split_once("://") {
        Some(("https" | "ssh" | "git", rest)) => rest.split_once('/').is_some_and(|(host, _)| is_host(host)),
        Some(_) => false,
        // The short form of ssh.
        None => url.split_once(':').is_some_and(|(host, path)| {
            !host.contains('/') && is_host(host) && !path.is_empty() && !path.starts_with('-')
        }),
    }
}

/// A host with a user and a port. ssh would take a `-` at the beginning for an option.
fn is_host(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    !host.is_empty()
        && !host.starts_with('-')
        && host.bytes().all(is_of_host)
        && user.is_none_or(|user| !user.starts_with('-'))
}

/// A path, in which git sees neither a host nor a scheme.
fn is_path(url: &str) -> bool {
    is_printable(url, MAX_VALUE) && !url.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(section: &str, own: &str, name: &str, value: &str) -> bool {
        let key = |own: &str, name: &str| Key {
            section: if name == "url" && section == "branch" { "remote".into() } else { section.into() },
            subsection: Some(own.into()),
            name: name.into(),
        };
        let real = Values::from([(key("origin", "url"), vec![Some("https://example.com/x".into())])]);
        is_allowed(&key(own, name), &[Some(value.into())], &real)
    }

    #[test]
    fn urls_of_networks_and_paths_pass_and_what_runs_a_program_does_not() {
        let good = [
            "https://example.com/x.git",
            "https://user:token@example.com:8443/x",
            "ssh://git@example.com:22/~x/y",
            "ssh://[2001:db8:0:1]/x",
            "git://example.com/x",
            "git@github.com:owner/name.git",
            "host:x",
            "/srv/git/x.git",
            "../x",
            "./x y",
            "x",
        ];
        assert_eq!(good.into_iter().find(|url| !passes("remote", "new", "url", url)), None);
        let bad = [
            "",
            "ext::sh -c touch% /tmp/x",
            "fd::17",
            "foo::bar",
            "foo://bar/x",
            "file:///x",
            "http://example.com/x",
            "-x",
            "--upload-pack=touch x",
            "ssh://-oProxyCommand=x/y",
            "ssh://git@-oProxyCommand=x/y",
            "ssh://-l@host/y",
            "-oProxyCommand=x:y",
            "git@-oProxyCommand=x:y",
            "host:-x",
            "https://example.com/\nx",
            "https://example.com%0ahost=x/",
            "https://",
            "https:///x",
            "https://exa mple.com/x",
            "x\"y",
            "x\\y",
            " x",
            "x\u{1b}[2J",
            "EXT::sh",
            "/x:y",
        ];
        assert_eq!(bad.into_iter().find(|url| passes("remote", "new", "url", url)), None);
        assert_eq!(bad.into_iter().find(|url| passes("submodule", "new", "url", url)), None);
        assert!(passes("remote", "origin", "url", "ssh://example.com/x"));
        assert!(!passes("remote", "origin", "url", "./planted.git"), "a push would run its hooks");
    }

    #[test]
    fn names_words_and_references_pass_in_their_form_alone() {
        let good = [
            ("branch", "main", "remote", "origin"),
            ("branch", "x/y#1", "remote", "."),
            ("branch", "main", "merge", "refs/heads/main"),
            ("branch", "main", "rebase", "true"),
            ("remote", "a/b", "fetch", "+refs/heads/*:refs/remotes/a/b/*"),
            ("remote", "a", "tagopt", "--no-tags"),
            ("submodule", "a b/c", "active", "true"),
            ("submodule", "a", "update", "rebase"),
        ];
        assert_eq!(good.into_iter().find(|(section, own, name, value)| !passes(section, own, name, value)), None);
        let bad = [
            ("branch", "main", "remote", "ext::sh -c x"),
            ("branch", "main", "remote", "./planted.git"),
            ("branch", "main", "remote", "unknown"),
            ("branch", "main", "merge", "--upload-pack=x"),
            ("branch", "main", "merge", "x"),
            ("branch", "main", "rebase", "interactive"),
            ("branch", "main", "mergeoptions", "--strategy=x"),
            ("branch", "-x", "remote", "origin"),
            ("branch", "a\"]\n[core", "remote", "origin"),
            ("remote", "https://github.com/x", "url", "https://example.com/x"),
            ("remote", "--upload-pack=x", "url", "https://example.com/x"),
            ("remote", "../x", "url", "https://example.com/x"),
            ("remote", "a", "uploadpack", "x"),
            ("remote", "a", "receivepack", "x"),
            ("remote", "a", "vcs", "x"),
            ("remote", "a", "pushurl", "https://example.com/x"),
            ("remote", "a", "proxy", "x"),
            ("remote", "a", "fetch", "--upload-pack=x"),
            ("remote", "a", "fetch", "a:b:c"),
            ("submodule", "a/../../x", "url", "https://example.com/x"),
            ("submodule", "a", "update", "!touch x"),
            ("submodule", "a", "ignore", "all"),
            ("core", "x", "fsmonitor", "x"),
            ("url", "x", "insteadof", "x"),
            ("filter", "x", "clean", "x"),
            ("diff", "x", "textconv", "x"),
            ("credential", "x", "helper", "x"),
        ];
        assert_eq!(bad.into_iter().find(|(section, own, name, value)| passes(section, own, name, value)), None);
    }
}
