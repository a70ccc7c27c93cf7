//! Variables by which tools find their private place for caches.

use crate::caches;
use crate::paths::real;
use nacre_protocol::confinement::{Filesystem, Network, PRIVATE_TMP};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// When a tool uses its private place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Private {
    /// Always: it fails without a cache that it can write to.
    Always,
    /// If programs have a network, or the user has nothing there. Without a network, it can use what the user has.
    Online,
    /// If the user has nothing there: it has programs or data, not a cache.
    Unless,
}

/// A variable of a tool.
struct Variable {
    name: &'static str,
    /// The directory in the place.
    private: &'static str,
    /// Where the tool looks without the variable, below the home directory.
    usual: &'static str,
    when: Private,
}

const fn row(name: &'static str, private: &'static str, usual: &'static str, when: Private) -> Variable {
    Variable { name, private, usual, when }
}

use Private::{Always, Online, Unless};

/// The home of most caches. Those below it move with it.
const CACHE_HOME: &str = "XDG_CACHE_HOME";
const NPM_CACHE: &str = "npm_config_cache";
/// npm sets it for what it starts.
const BY_NPM: &str = "npm_execpath";
/// With this variable, pnpm takes its store from there.
const PNPM_HOME: &str = "PNPM_HOME";

/// docs/projects.md has this list.
const VARIABLES: [Variable; 21] = [
    row(CACHE_HOME, caches::CACHE_HOME, ".cache", Always),
    row(NPM_CACHE, "npm", ".npm", Online),
    row(PNPM_HOME, "pnpm", ".local/share/pnpm", Online),
    row("pnpm_config_store_dir", "pnpm/store", ".local/share/pnpm/store", Online),
    row("YARN_GLOBAL_FOLDER", "yarn", ".yarn/berry", Online),
    row("BUN_INSTALL_CACHE_DIR", "bun", ".bun/install/cache", Online),
    row("DENO_DIR", "deno", ".cache/deno", Online),
    row("PIP_CACHE_DIR", "pip", ".cache/pip", Always),
    row("UV_CACHE_DIR", "uv", ".cache/uv", Always),
    row("UV_PYTHON_INSTALL_DIR", "uv-python", ".local/share/uv/python", Unless),
    row("CARGO_HOME", "cargo", ".cargo", Online),
    row("GOCACHE", "go-build", ".cache/go-build", Always),
    row("GOPATH", "go", "go", Online),
    row("GOMODCACHE", "go/pkg/mod", "go/pkg/mod", Online),
    row("COREPACK_HOME", "cache/node/corepack", ".cache/node/corepack", Unless),
    row("PLAYWRIGHT_BROWSERS_PATH", "cache/ms-playwright", ".cache/ms-playwright", Unless),
    row("PUPPETEER_CACHE_DIR", "cache/puppeteer", ".cache/puppeteer", Unless),
    row("CYPRESS_CACHE_FOLDER", "cache/Cypress", ".cache/Cypress", Unless),
    row("HF_HOME", "cache/huggingface", ".cache/huggingface", Unless),
    row("TORCH_HOME", "cache/torch", ".cache/torch", Unless),
    row("POETRY_VIRTUALENVS_PATH", "cache/pypoetry/virtualenvs", ".cache/pypoetry/virtualenvs", Unless),
];

/// Directories that other variables move.
const MOVED_BY: [(&str, &str); 4] =
    [(".cache", CACHE_HOME), (".local/share/pnpm", PNPM_HOME), (".local/share", "XDG_DATA_HOME"), ("go", "GOPATH")];

/// What decides about the variables of a session.
pub struct Surroundings<'a> {
    /// The environment of its programs.
    pub env: &'a [(OsString, OsString)],
    /// The variables in it that the environment of this process does not have with this value.
    pub own: &'a [String],
    /// The rules for files.
    pub rules: &'a Filesystem,
    /// The rule for the network.
    pub network: Network,
    /// Whether the directory for temporary files is private, so that programs see nothing of the machine's.
    pub has_private_tmp: bool,
}

/// The variables for a session, and a link that its place needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// See the module.
    pub variables: Vec<(String, OsString)>,
    /// Where it is in the place, and its target.
    pub link: Option<(PathBuf, PathBuf)>,
}

/// Decides for a place. A variable that is set stays, and a tool that can write to its usual directory keeps it.
pub fn tools(place: &Path, project: &Path, surroundings: &Surroundings<'_>) -> Tools {
    let mut found = Tools::default();
    let is_moved = |tools: &Tools, name: &str| tools.variables.iter().any(|(moved, _)| moved == name);
    for Variable { name, private, usual, when } in VARIABLES.iter().filter(|row| !surroundings.is_chosen(row)) {
        let looked = surroundings.given(name).map(real).or_else(|| surroundings.usual(usual));
        if looked.as_ref().is_some_and(|looked| surroundings.is_writable(looked)) {
            continue;
        }
        let own = looked.filter(|looked| surroundings.is_visible(looked));
        let stays = match when {
            Always => false,
            Online => own.is_some() && surroundings.network == Network::Closed,
            Unless => own.is_some(),
        };
        let value = match own {
            // It would move with the other caches.
            Some(own) if stays => (usual.starts_with(".cache/") && is_moved(&found, CACHE_HOME)).then_some(own),
            // It moves with them.
            None if private.starts_with("cache/") => None,
            _ => Some(place.join(private)),
        };
        found.variables.extend(value.map(|value| ((*name).to_string(), value.into())));
    }
    // pnpm before version 11 prefers the home that is set. npm warns of this variable, so it is not always set.
    let store =
        found.variables.iter().find(|(name, _)| name == "pnpm_config_store_dir").map(|(_, store)| store.clone());
    let needs_store = !is_moved(&found, PNPM_HOME) && !surroundings.is_set("npm_config_store_dir");
    if let Some(store) = store.filter(|_| needs_store) {
        found.variables.push(("npm_config_store_dir".into(), store));
    }
    // Its cache cannot be linked to a project, which is another mount.
    if is_moved(&found, "UV_CACHE_DIR") && !surroundings.is_set("UV_LINK_MODE") {
        found.variables.push(("UV_LINK_MODE".into(), "copy".into()));
    }
    if is_moved(&found, "CARGO_HOME") {
        found.link = surroundings.cargo_config(project);
    }
    found
}

impl Surroundings<'_> {
    fn value(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().rfind(|(existing, _)| existing == name).map(|(_, value)| value.as_os_str())
    }

    fn given(&self, name: &str) -> Option<&Path> {
        self.value(name).map(Path::new).filter(|value| value.is_absolute())
    }

    /// True if somewhere else was chosen. The environment of this process chooses nothing if it names the usual directory, nor by what
    /// npm sets for all that it starts.
    fn is_chosen(&self, Variable { name, usual, .. }: &Variable) -> bool {
        let is_own = self.own.iter().any(|own| own.eq_ignore_ascii_case(name) && self.value(own).is_some());
        let is_npms = || *name == NPM_CACHE && self.is_set(BY_NPM);
        let is_usual =
            || self.given(name).is_some_and(|given| self.usual(usual).is_some_and(|usual| real(given) == usual));
        self.is_set(name) && (is_own || !is_npms() && !is_usual())
    }

    /// npm ignores the case of its variables.
    fn is_set(&self, name: &str) -> bool {
        self.env.iter().any(|(existing, _)| existing.eq_ignore_ascii_case(name))
    }

    /// Where a tool looks without its variable. None without a home directory.
    fn usual(&self, usual: &str) -> Option<PathBuf> {
        let moved = MOVED_BY.iter().find_map(|(below, by)| {
            let rest = Path::new(usual).strip_prefix(below).ok().filter(|rest| !rest.as_os_str().is_empty())?;
            Some(Path::new(self.value(by)?).join(rest))
        });
        let found = moved.or_else(|| Some(Path::new(self.value("HOME")?).join(usual)))?;
        found.is_absolute().then(|| real(&found))
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.rules.covers(path) || self.rules.write.iter().any(|root| path.starts_with(root))
    }

    /// True if it exists, and programs can read it.
    fn is_visible(&self, path: &Path) -> bool {
        let is_below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let is_listed = self.rules.read.as_ref().map(|read| is_below(read));
        let is_covered = self.has_private_tmp && path.starts_with(PRIVATE_TMP) && is_listed != Some(true);
        path.is_dir() && is_listed != Some(false) && !is_covered && !is_below(&self.rules.hide)
    }

    /// A link to the user's settings for cargo, if there are any. A project in the home directory finds them by itself.
    fn cargo_config(&self, project: &Path) -> Option<(PathBuf, PathBuf)> {
        let is_found = project.starts_with(real(self.given("HOME")?));
        let home = self.usual(".cargo").filter(|home| self.is_visible(home))?;
        let config = home.join("config.toml");
        (!is_found && config.is_file()).then(|| (PathBuf::from("cargo/config.toml"), config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(existing: &[&str]) -> Self {
            let home = tempfile::tempdir().unwrap();
            existing.iter().for_each(|name| fs::create_dir_all(home.path().join(name)).unwrap());
            Self(home)
        }

        fn path(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap()
        }

        fn decide(&self, network: Network, set: &[(&str, &str)], rules: &Filesystem) -> Tools {
            let mut env = vec![("HOME".into(), self.path().into())];
            env.extend(set.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
            let own = ["DENO_DIR", "NPM_CONFIG_CACHE"].map(str::to_string);
            let surroundings = Surroundings { env: &env, own: &own, rules, network, has_private_tmp: false };
            tools(Path::new("/place"), Path::new("/project"), &surroundings)
        }

        fn open(&self, network: Network, set: &[(&str, &str)]) -> Tools {
            self.decide(network, set, &Filesystem::default())
        }
    }

    fn value<'a>(tools: &'a Tools, name: &str) -> Option<&'a str> {
        tools.variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.to_str().unwrap())
    }

    #[test]
    fn the_documentation_has_the_list() {
        let text = include_str!("../../../docs/projects.md");
        for Variable { name, private, usual, when } in &VARIABLES {
            let when = match when {
                Always => "always",
                Online => "with a network",
                Unless => "if missing",
            };
            let line = format!("| `{name}` | `{private}` | `~/{usual}` | {when} |");
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }

    #[test]
    fn without_anything_in_the_home_directory_all_caches_are_private() {
        for network in [Network::Closed, Network::Proxy, Network::Open] {
            let found = Home::new(&[]).open(network, &[]);
            for Variable { name, private, .. } in VARIABLES.iter().filter(|row| !row.private.starts_with("cache/")) {
                assert_eq!(value(&found, name), Some(&*format!("/place/{private}")), "{name}");
            }
            assert_eq!(value(&found, "PLAYWRIGHT_BROWSERS_PATH"), None);
            assert_eq!(value(&found, "UV_LINK_MODE"), Some("copy"));
        }
    }

    #[test]
    fn without_a_network_tools_read_what_the_user_has_downloaded() {
        let home = Home::new(&[".npm", ".cargo", ".cache/deno", "go/pkg/mod", ".cache/uv"]);
        let found = home.open(Network::Closed, &[]);
        for name in ["npm_config_cache", "CARGO_HOME", "GOPATH", "GOMODCACHE"] {
            assert_eq!(value(&found, name), None, "{name}");
        }
        let deno = home.path().join(".cache/deno");
        assert_eq!(value(&found, "DENO_DIR"), deno.to_str(), "it does not move with the caches");
        assert_eq!(value(&found, "UV_CACHE_DIR"), Some("/place/uv"));
        for network in [Network::Proxy, Network::Open] {
            let found = home.open(network, &[]);
            assert_eq!(value(&found, "npm_config_cache"), Some("/place/npm"));
            assert_eq!(value(&found, "DENO_DIR"), Some("/place/deno"));
        }
    }

    #[test]
    fn what_the_user_has_installed_stays_where_it_is() {
        let home = Home::new(&[".cache/ms-playwright", ".local/share/uv/python"]);
        let found = home.open(Network::Open, &[]);
        let browsers = home.path().join(".cache/ms-playwright");
        assert_eq!(value(&found, "PLAYWRIGHT_BROWSERS_PATH"), browsers.to_str());
        assert_eq!(value(&found, "UV_PYTHON_INSTALL_DIR"), None);
        let hidden = Filesystem { hide: vec![home.path()], ..Filesystem::default() };
        let found = home.decide(Network::Open, &[], &hidden);
        assert_eq!(value(&found, "PLAYWRIGHT_BROWSERS_PATH"), None, "programs could not read it");
    }

    #[test]
    fn a_variable_that_is_set_stays() {
        let found = Home::new(&[]).open(Network::Open, &[("NPM_CONFIG_CACHE", "/mine"), ("PNPM_HOME", "/pnpm")]);
        assert_eq!([value(&found, "npm_config_cache"), value(&found, PNPM_HOME)], [None, None]);
        assert_eq!(value(&found, "npm_config_store_dir"), Some("/place/pnpm/store"));
        let home = Home::new(&[".xdg/ms-playwright"]);
        let xdg = home.path().join(".xdg");
        let found = home.open(Network::Open, &[(CACHE_HOME, xdg.to_str().unwrap())]);
        assert_eq!([value(&found, CACHE_HOME), value(&found, "PLAYWRIGHT_BROWSERS_PATH")], [None, None]);
        assert_eq!(value(&found, "GOCACHE"), Some("/place/go-build"));
    }

    #[test]
    fn a_variable_that_says_what_the_tool_does_anyway_does_not_count() {
        let home = Home::new(&[".npm"]);
        let at = |name: &str| home.path().join(name).into_os_string().into_string().unwrap();
        let (npm, pnpm, go) = (at(".npm"), at(".local/share/pnpm"), at("go"));
        let set = [("npm_config_cache", &*npm), (PNPM_HOME, &pnpm), ("GOPATH", &go)];
        let found = home.open(Network::Open, &set);
        assert_eq!(value(&found, "npm_config_cache"), Some("/place/npm"));
        assert_eq!([value(&found, PNPM_HOME), value(&found, "npm_config_store_dir")], [Some("/place/pnpm"), None]);
        assert_eq!(value(&found, "GOPATH"), Some("/place/go"));
        assert_eq!(value(&home.open(Network::Closed, &set), "npm_config_cache"), None);
        let deno = at(".cache/deno");
        assert_eq!(
            value(&home.open(Network::Open, &[("DENO_DIR", &deno)]), "DENO_DIR"),
            None,
            "it was set for the sandbox"
        );
    }

    #[test]
    fn what_npm_sets_for_the_program_that_it_starts_does_not_count() {
        let home = Home::new(&[]);
        let set = [("npm_config_cache", "/data"), ("npm_execpath", "/npm-cli.js")];
        assert_eq!(value(&home.open(Network::Open, &set), "npm_config_cache"), Some("/place/npm"));
        let own = [("NPM_CONFIG_CACHE", "/own"), ("npm_execpath", "/npm-cli.js")];
        assert_eq!(value(&home.open(Network::Open, &own), "npm_config_cache"), None);
    }

    #[test]
    fn a_tool_that_can_write_to_its_usual_directory_keeps_it() {
        let home = Home::new(&[".npm"]);
        let rules = |write: &str| Filesystem { write: vec![home.path().join(write)], ..Filesystem::default() };
        let found = home.decide(Network::Open, &[], &rules(".npm"));
        assert_eq!([value(&found, "npm_config_cache"), value(&found, "DENO_DIR")], [None, Some("/place/deno")]);
        assert_eq!(home.decide(Network::Open, &[], &rules("")), Tools::default());
    }

    #[test]
    fn cargo_keeps_the_settings_of_the_user() {
        let home = Home::new(&[".cargo"]);
        assert_eq!(home.open(Network::Open, &[]).link, None);
        let config = home.path().join(".cargo/config.toml");
        fs::write(&config, "").unwrap();
        let found = home.open(Network::Open, &[]);
        assert_eq!(found.link, Some(("cargo/config.toml".into(), config)));
        assert_eq!(home.open(Network::Closed, &[]).link, None);
    }
}
