//! What commands get instead of a secret: a text of the same form, length and set of letters, since tools check these.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io;

/// How tokens of well-known services begin.
const BEGINNINGS: [&str; 24] = [
    "github_pat_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "npm_",
    "pypi-",
    "sk-ant-api03-",
    "sk-proj-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "dop_v1_",
    "SG.",
];

const DIGITS: &[u8] = b"0123456789";
const HEX: &[u8] = b"0123456789abcdef";
const LOWER: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const UPPER: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALL: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Fewer drawn letters could be guessed, or be in other texts.
const FEWEST: usize = 8;

/// `{"nacre":""}`
const CLAIMS: [&str; 2] = ["{\"nacre\":\"", "\"}"];

/// Draws the placeholder of a value.
///
/// # Errors
/// There are no random numbers.
pub fn placeholder(value: &str) -> io::Result<String> {
    if let Some(token) = jwt(value)? {
        return Ok(token);
    }
    let start = BEGINNINGS.iter().find(|start| value.starts_with(**start)).map_or(0, |start| start.len());
    let enough = |start: usize| value[start..].bytes().filter(u8::is_ascii_alphanumeric).count() >= FEWEST;
    if !enough(0) {
        // Most of its form is the value itself.
        return value.chars().map(|_| draw(ALL)).collect();
    }
    let start = if enough(start) { start } else { 0 };
    Ok(format!("{}{}", &value[..start], drawn(&value[start..])?))
}

/// Draws each letter and digit anew, from the smallest set that has them all.
fn drawn(text: &str) -> io::Result<String> {
    let letters: Vec<u8> = text.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let sets = [DIGITS, HEX, LOWER, UPPER];
    let set = sets.into_iter().find(|set| letters.iter().all(|letter| set.contains(letter))).unwrap_or(ALL);
    text.chars().map(|one| if one.is_ascii_alphanumeric() { draw(set) } else { Ok(one) }).collect()
}

fn draw(set: &[u8]) -> io::Result<char> {
    // Without the rest, the first ones of the set would be drawn more often.
    let even = 256 - 256 % set.len();
    loop {
        let [byte] = random::<1>()?;
        if usize::from(byte) < even {
            return Ok(char::from(set[usize::from(byte) % set.len()]));
        }
    }
}

/// For a JSON Web Token: one with its header, other claims and another signature.
fn jwt(value: &str) -> io::Result<Option<String>> {
    let parts: Vec<&str> = value.split('.').collect();
    let [header, claims, signature] = parts[..] else {
        return Ok(None);
    };
    let is_json = |part: &str| URL_SAFE_NO_PAD.decode(part).is_ok_and(|text| text.starts_with(b"{"));
    let room = URL_SAFE_NO_PAD.decode(claims).map_or(0, |text| text.len());
    let Some(letters) = room.checked_sub(CLAIMS.concat().len()).filter(|&letters| letters >= FEWEST) else {
        return Ok(None);
    };
    if !is_json(header) || !is_json(claims) {
        return Ok(None);
    }
    let made = [CLAIMS[0], &drawn(&"a".repeat(letters))?, CLAIMS[1]].concat();
    Ok(Some(format!("{header}.{}.{}", URL_SAFE_NO_PAD.encode(made), drawn(signature)?)))
}

/// Random bytes.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |_| io::Error::other("the system gives no random numbers");
    super::origin::provider().secure_random.fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> String {
        let of = |one: char| match one {
            '0'..='9' => '9',
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            other => other,
        };
        text.chars().map(of).collect()
    }

    #[test]
    fn keeps_the_beginning_the_length_and_the_set_of_letters() {
        for (value, start) in [
            ("ghp_aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3", "ghp_"),
            ("sk-ant-api03-abc-DEF_123456789", "sk-ant-api03-"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
            ("0123456789", ""),
            ("deadbeef-cafe-0123", ""),
            ("sk-short1", ""),
        ] {
            let made = placeholder(value).unwrap();
            assert!(made.starts_with(start) && made != value, "{made}");
            assert_eq!(made.len(), value.len());
            let marks = |text: &str| text.chars().filter(|one| !one.is_ascii_alphanumeric()).collect::<String>();
            assert_eq!(marks(&made), marks(value));
            assert_ne!(placeholder(value).unwrap(), made);
        }
        assert_eq!(form(&placeholder("12345678").unwrap()), "99999999");
        assert!(placeholder("deadbeefcafe").unwrap().bytes().all(|byte| HEX.contains(&byte)));
    }

    #[test]
    fn of_a_random_value_has_its_form_and_enough_that_is_drawn() {
        let mut random = crate::testing::Random::new();
        for _ in 0..3_000 {
            let start = [BEGINNINGS[random.below(BEGINNINGS.len())], ""][random.below(2)];
            let letters = ["0123456789", "0123456789abcdef", "abcXYZ019", "ab1-_./+= \"\\%&"][random.below(4)];
            let value = format!("{start}{}", random.text(letters, 60));
            let made = placeholder(&value).unwrap();
            assert_eq!(made.len(), value.len(), "{value} {made}");
            let is_drawn = |text: &str| text.bytes().filter(u8::is_ascii_alphanumeric).count();
            if value.len() >= FEWEST {
                assert!(is_drawn(&made) >= FEWEST && made != value, "{value} {made}");
            }
            if is_drawn(&value) >= FEWEST {
                let marks = |text: &str| text.replace(|one: char| one.is_ascii_alphanumeric(), "a");
                assert_eq!(marks(&made), marks(&value));
                assert!(
                    value.bytes().any(|byte| byte.is_ascii_alphabetic())
                        || !made.bytes().any(|byte| byte.is_ascii_alphabetic())
                );
            }
        }
    }

    #[test]
    fn of_a_token_is_a_token_with_other_claims() {
        let parts =
            [r#"{"alg":"HS256"}"#, r#"{"sub":"1234567890","name":"someone"}"#].map(|part| URL_SAFE_NO_PAD.encode(part));
        let value = format!("{}.{}.aB3_-aB3aB3", parts[0], parts[1]);
        let made = placeholder(&value).unwrap();
        let found: Vec<&str> = made.split('.').collect();
        assert_eq!((found[0], made.len()), (parts[0].as_str(), value.len()));
        let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(found[1]).unwrap()).unwrap();
        assert!(claims.starts_with(CLAIMS[0]) && claims.ends_with(CLAIMS[1]), "{claims}");
    }
}
