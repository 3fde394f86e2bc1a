//! The `OpenStack` clients without Keystone: openstacksdk and the command line of
//! python-openstackclient.

use super::run_script;

#[test]
fn openstacksdk_posts_lists_and_claims_messages() {
    run_script("sdk.py");
}

#[test]
fn openstack_messaging_manages_queues_and_messages() {
    run_script("command_line.py");
}
