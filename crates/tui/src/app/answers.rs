//! Carrying out the answers to dialogs.

use crate::app::{App, browser, no_key, providers, queue, remember, settings, spending, trust};
use crate::commands;
use crate::commands::{
    add_dir, agents, config, effort, hooks, ide, login, logout, mcp, mode, output_style,
    permissions, plugin, rename, resume, rewind, search, skills, surgery, tasks, theme, tree,
};
use crate::layers::permission::PermissionAnswer;
use crate::layers::{ElicitationDialog, Form, Outcome, PlanDialog, Purpose};
use crate::render::cell::Cell;
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::op::Op;
use lathe_protocol::permission::PermissionReply;

/// Carries out the answer to the dialog or question that is shown.
pub(crate) fn done(app: &mut App, outcome: Outcome) {
    match outcome {
        Outcome::Stay | Outcome::Ignored | Outcome::Do(_) => return,
        Outcome::Answered(answer) => permission_answered(app, answer),
        Outcome::Elicited(reply) => elicitation_answered(app, reply),
        Outcome::Cancelled => cancelled(app),
        Outcome::Chosen(value) => {
            let is_form = app.layers.shown::<Form>().is_some();
            if is_form && value.is_empty() {
                cancelled(app);
            } else if let Some(purpose) = app.layers.purpose().cloned() {
                let opened = app.layers.opened();
                chosen(app, purpose, &value);
                app.layers.answered(opened);
            }
        }
        Outcome::Other { value, key } => {
            if let Some(purpose) = app.layers.purpose().cloned() {
                let opened = app.layers.opened();
                other_key(app, purpose, &value, key);
                app.layers.answered(opened);
            }
        }
    }
    app.next_question();
}

fn permission_answered(app: &mut App, answer: PermissionAnswer) {
    let plan = app
        .layers
        .shown::<PlanDialog>()
        .filter(|_| matches!(answer.reply, PermissionReply::Deny { .. }))
        .map(|dialog| (dialog.plan().to_owned(), dialog.starts_fresh()));
    let Some(question) = app.layers.close_dialog() else {
        return;
    };
    let mut fresh = None;
    if let Some((plan, starts_fresh)) = plan {
        fresh = starts_fresh.then(|| plan.clone());
        // A plan that is not accepted can still be read.
        app.with_look(|conversation, look| conversation.push(Cell::Plan(plan), look));
    }
    // The comment goes first: it must reach the model with the result of the call, however soon that
    // is there.
    if let Some(comment) = answer.comment {
        queue::submit_content(app, &comment, comment.clone().into());
    }
    if let Some(request_id) = question.request_id().cloned() {
        app.engine.send(Op::PermissionReply {
            request_id,
            reply: answer.reply,
        });
    }
    if let Some(plan) = fresh {
        commands::plan::start_fresh(app, &plan);
    }
}

fn elicitation_answered(app: &mut App, reply: ElicitationReply) {
    let question = app.layers.shown::<ElicitationDialog>();
    let url = question.and_then(|question| question.url().map(str::to_owned));
    let Some(question) = app.layers.close_dialog() else {
        return;
    };
    if let (Some(url), ElicitationReply::Accept { .. }) = (url, &reply) {
        browser::open(app, &url);
    }
    if let Some(request_id) = question.request_id().cloned() {
        app.engine.send(Op::ElicitationReply { request_id, reply });
    }
}

/// A dialog was closed without an answer: the one from which it was opened is shown again.
fn cancelled(app: &mut App) {
    let Some(dialog) = app.layers.close_dialog() else {
        return;
    };
    match dialog.purpose() {
        Some(Purpose::Trust) => trust::answered(app, "leave"),
        Some(Purpose::NoKey) => no_key::chosen(app, "leave"),
        Some(
            Purpose::SessionKey
            | Purpose::KeyHelper
            | Purpose::Providers
            | Purpose::ProviderKey { .. }
            | Purpose::ProviderModel,
        ) if app.engine.handle.is_none() => {
            no_key::ask(app);
        }
        Some(Purpose::Theme) => {
            let name = app.look.theme_name.clone();
            settings::set_theme(app, &name);
        }
        Some(Purpose::Memory { text }) => {
            app.prompt.editor.set_text(&format!("# {text}"));
            app.edited();
        }
        Some(Purpose::Resume | Purpose::OtherFolder { .. })
            if app.engine.handle.is_none() && !app.engine.opening =>
        {
            app.open_session();
        }
        Some(Purpose::PluginConfirm) => app.commands.prepared_plugin = None,
        _ => {}
    }
}

/// Something was chosen in a list, or a form was filled in.
fn chosen(app: &mut App, purpose: Purpose, value: &str) {
    match purpose {
        Purpose::AddDirectory => add_dir::add(app, value),
        Purpose::AddMarketplace => plugin::add_marketplace(app, value),
        Purpose::AddRule => permissions::ask_scope(app, value),
        Purpose::Agents => agents::mention(app, value),
        Purpose::NewAgent => agents::named(app, value),
        Purpose::NewAgentPlace { name } => agents::create(app, &name, value),
        Purpose::Proposals => commands::fewer_permission_prompts::add(app, value),
        Purpose::NoKey => no_key::chosen(app, value),
        Purpose::SessionKey => no_key::use_key(app, value),
        Purpose::Providers => providers::chosen(app, value),
        Purpose::ProviderKey { provider } => providers::store(app, provider, value),
        Purpose::ProviderModel => no_key::use_model(app, value),
        Purpose::EditRule { old } => permissions::replace_rule(app, &old, value),
        Purpose::RuleScope { rule } => permissions::save_rule(app, &rule, value),
        Purpose::Config => config::edit(app, value),
        Purpose::ConfigValue { key } => config::set(app, &key, value),
        Purpose::Cost => spending::answered(app, value),
        Purpose::Editors => ide::connect(app, value),
        Purpose::Effort => effort::set(app, value),
        Purpose::History => {
            app.prompt.editor.set_text(value);
            app.edited();
        }
        Purpose::Hooks => hooks::show(app, value),
        Purpose::KeyHelper => login::set_helper(app, value),
        Purpose::Leave => commands::exit::answered(app, value),
        Purpose::Login => login::chosen(app, value),
        Purpose::Logout => logout::chosen(app, value),
        Purpose::Marketplace { name } => plugin::marketplace_act(app, value, &name),
        Purpose::Marketplaces => plugin::marketplace_chosen(app, value),
        Purpose::Mcp => mcp::show(app, value),
        Purpose::McpServer { name } => mcp::act(app, value, &name),
        Purpose::Memory { text } => remember::write(app, &text, value),
        Purpose::Mode => mode::run(app, value),
        Purpose::Model => commands::model::chosen(app, value),
        Purpose::ModelSwitch { wanted, source } => {
            commands::model::confirmed(app, &wanted, source, value);
        }
        Purpose::OutputStyle => output_style::run(app, value),
        Purpose::PermissionRule => permissions::rule_chosen(app, value),
        Purpose::Plugin { id } => plugin::act(app, value, &id),
        Purpose::PluginConfirm => plugin::install(app, value),
        Purpose::PluginInstall => plugin::fetch(app, value),
        Purpose::Plugins => plugin::chosen(app, value),
        Purpose::Rename => rename::set_title(app, value),
        Purpose::RenameSession { id } => resume::rename(app, &id, value),
        Purpose::Resume => commands::run_own(app, BuiltinCommand::Resume, value),
        Purpose::OtherFolder { id, folder } => resume::other_folder(app, &id, &folder, value),
        Purpose::Queue => commands::queue::edit(app, value),
        Purpose::RewindTo => rewind::ask_what(app, value),
        Purpose::RewindWhat { to } => rewind::apply(app, &to, value),
        Purpose::Skills => skills::put_into_prompt(app, value),
        Purpose::Tasks => tasks::show(app, value),
        Purpose::Tree => tree::go(app, value),
        Purpose::TreeLabel { id } => tree::label(app, &id, value),
        Purpose::SearchText => search::run(app, value),
        Purpose::Found => search::chosen(app, value),
        Purpose::Contents => surgery::read(app, value),
        Purpose::Theme => theme::chosen(app, value),
        Purpose::Trust => trust::answered(app, value),
        Purpose::Reading
        | Purpose::Fetching
        | Purpose::Context
        | Purpose::Insights
        | Purpose::Changes
        | Purpose::Agent { .. }
        | Purpose::TaskOutput { .. } => {}
    }
}

/// Another key that a list or page offers.
fn other_key(app: &mut App, purpose: Purpose, value: &str, key: char) {
    match (purpose, key) {
        (Purpose::PermissionRule, 'x') => permissions::remove_rule(app, value),
        (Purpose::Proposals, 'a') => commands::fewer_permission_prompts::add_all(app),
        (Purpose::Resume, key) => resume::other_key(app, value, key),
        (Purpose::Tree, key) => tree::other_key(app, value, key),
        (Purpose::Found, 's') => search::ask(app, ""),
        (Purpose::Context, 'e') => surgery::list(app),
        (Purpose::Contents, key) => surgery::other_key(app, value, key),
        (Purpose::Changes, 'r') => commands::diff::reviewed(app),
        (Purpose::Insights, 'h') => commands::insights::write(app),
        (Purpose::Config, 'x') => config::reset(app, value),
        (Purpose::Queue, key) => commands::queue::other_key(app, value, key),
        (Purpose::Agents, 'o') => agents::show(app, value),
        (Purpose::Agents, 'n') => agents::ask_name(app),
        (Purpose::Skills, 'o') => skills::show(app, value),
        (Purpose::Tasks, 'x') => tasks::stop(app, value),
        (Purpose::Tasks, 'k') => tasks::keep(app, value),
        (Purpose::TaskOutput { id }, 'x') => tasks::stop(app, &id),
        (Purpose::TaskOutput { id }, 'r') => tasks::show_output(app, &id),
        _ => {}
    }
}
