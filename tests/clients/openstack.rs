//! The `OpenStack` clients without Keystone: openstacksdk and the command line of
//! python-openstackclient.

use super::{run_script, run_script_with};

#[test]
fn openstacksdk_posts_lists_and_claims_messages() {
    run_script("sdk.py");
}

#[test]
fn openstack_messaging_manages_queues_and_messages() {
    run_script("command_line.py");
}

#[test]
fn openstack_messaging_needs_only_a_url_with_a_default_project() {
    run_script_with("default_project.py", &[("SUKKAL_TRANSPORT__DEFAULT_PROJECT", "default_project.py")]);
}
