//! Declarations of options. A table `options!` declares each option once: its explanation, its
//! field, its default value and the values that it accepts. From the tables follow the structs that
//! have the values, the rules for them, and the text of `config/default.toml`.

pub mod rule;

use toml::Value;

pub use rule::Rule;

/// An option with its default value.
pub struct Declared {
    /// The name with the section, such as `transport.max_wait`.
    pub name: String,
    /// The values that the option accepts.
    pub rule: Rule,
    /// The default value.
    pub default: Value,
}

/// A struct whose fields are options or sections.
pub trait Declare {
    /// Adds the options to these declarations, in the order of the table.
    fn declare(declarations: &mut Declarations);
}

/// Options, and the text of a file that explains them.
#[derive(Default)]
pub struct Declarations {
    section: Option<&'static str>,
    options: Vec<Declared>,
    text: String,
}

impl Declarations {
    /// Returns the options of a struct and of its sections.
    #[must_use]
    pub fn of<T: Declare>() -> Self {
        let mut declarations = Self::default();
        T::declare(&mut declarations);
        declarations.text.truncate(declarations.text.trim_end().len());
        declarations.text.push('\n');
        declarations
    }

    /// Returns all options.
    #[must_use]
    pub fn into_options(self) -> Vec<Declared> {
        self.options
    }

    /// Returns a file in TOML in which each option has its explanation and its default value.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Adds a text about all options of a section.
    pub fn introduction(&mut self, lines: &[&str]) {
        self.comment(lines);
        if !lines.is_empty() {
            self.end_group();
        }
    }

    /// Adds an option.
    pub fn option(&mut self, key: &str, explanation: &[&str], rule: Rule, default: Value) {
        self.comment(explanation);
        let shown = match &default {
            Value::String(text) if text.contains('\n') => format!("\"\"\"\n{text}\"\"\""),
            other => other.to_string(),
        };
        self.text.extend([key, " = ", &shown, "\n"]);
        let name = self.section.map_or_else(|| key.to_owned(), |section| format!("{section}.{key}"));
        self.options.push(Declared { name, rule, default });
    }

    /// Adds the options of a section.
    pub fn section<T: Declare>(&mut self, name: &'static str) {
        self.text.extend(["[", name, "]\n"]);
        self.section = Some(name);
        T::declare(self);
        self.section = None;
    }

    /// Adds a blank line, unless there is one already.
    pub fn end_group(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn comment(&mut self, lines: &[&str]) {
        for line in lines {
            self.text.extend(["#", line, "\n"]);
        }
    }
}

/// Declares a struct and the options in its fields, which are separated by commas. A semicolon
/// takes the place of a comma if a blank line follows in `config/default.toml`.
///
/// ```text
/// options! {
///     /// What the struct is.
///     #[derive(Clone, Debug, Deserialize, PartialEq)]
///     pub struct Janitor {
///         //! A text about all options of the section, if there is one.
///
///         /// The explanation of the option.
///         #[serde(rename = "pause")]
///         pub pause_s: u64 = 10 in Rule::DURATION;
///     }
/// }
/// ```
///
/// A field without a default value is a section that has its name. With `#[serde(flatten)]`, its
/// options belong to this section. With `#[serde(skip)]`, it has no options.
#[macro_export]
macro_rules! declare_options {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(#![doc = $introduction:literal])*
            $($(
                $(#[doc = $text:literal])*
                $(#[serde($($serde:tt)*)])?
                $field_visibility:vis $field:ident: $type:ty $(= $default:tt in $rule:expr)?
            ),+);+ $(;)?
        }
    )+) => {$(
        $(#[$attribute])*
        // The explanations are written for a file in TOML, not for Markdown.
        #[allow(clippy::doc_link_with_quotes, clippy::doc_markdown, rustdoc::all)]
        $visibility struct $name {
            $($(
                $(#[doc = $text])*
                $(#[serde($($serde)*)])?
                $field_visibility $field: $type,
            )+)+
        }

        impl $crate::options::Declare for $name {
            fn declare(declarations: &mut $crate::options::Declarations) {
                declarations.introduction(&[$($introduction),*]);
                $(
                    $($crate::declare_field! {
                        declarations, [$($text),*], [$($($serde)*)?], $field: $type $(= $default in $rule)?
                    })+
                    declarations.end_group();
                )+
            }
        }
    )+};
}

/// Adds a field to declarations: see [`options!`].
#[doc(hidden)]
#[macro_export]
macro_rules! declare_field {
    ($to:ident, $text:tt, [rename = $key:literal $($others:tt)*], $field:ident: $type:ty = $default:tt in $rule:expr) => {
        $to.option($key, &$text, $rule, $crate::default_value!($default));
    };
    ($to:ident, $text:tt, $serde:tt, $field:ident: $type:ty = $default:tt in $rule:expr) => {
        $to.option(stringify!($field), &$text, $rule, $crate::default_value!($default));
    };
    ($to:ident, $text:tt, [skip], $field:ident: $type:ty) => {};
    ($to:ident, $text:tt, [flatten], $field:ident: $type:ty) => {
        <$type as $crate::options::Declare>::declare($to);
    };
    ($to:ident, $text:tt, $serde:tt, $field:ident: $type:ty) => {
        $to.section::<$type>(stringify!($field));
    };
}

/// Converts a default value to a value in TOML.
#[doc(hidden)]
#[macro_export]
macro_rules! default_value {
    ([$($item:literal),*]) => {
        toml::Value::Array(vec![$(toml::Value::from($item)),*])
    };
    ($value:expr) => {
        toml::Value::from($value)
    };
}

pub use crate::declare_options as options;
