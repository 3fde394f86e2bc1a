//! Tokens and keys from RFC 7515 and RFC 8037, and of algorithms that have no example there.

/// RFC 7515, appendix A.2.
pub(super) const RS256: &str = "\
    eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19\
    yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt\
    _O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb\
    1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI\
    8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
pub(super) const RS256_MODULUS: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR\
    T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXB\
    dQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9ia\
    GNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
/// RFC 7515, appendix A.3.
pub(super) const ES256: &str = "\
    eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19\
    yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU\
    1Q";
pub(super) const ES256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
pub(super) const ES256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
/// RFC 8037, appendix A.4.
pub(super) const EDDSA: &str = "\
    eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6\
    dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
pub(super) const EDDSA_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
/// RFC 7519, section 6.1.
pub(super) const UNSIGNED: &str = "\
    eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19y\
    b290Ijp0cnVlfQ.";
/// RFC 7515, appendix A.1.
pub(super) const HS256: &str = "\
    eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9\
    leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// `{}`, signed with openssl.
pub(super) const RS384: &str = "\
    eyJhbGciOiJSUzM4NCJ9.e30.HxbJoxez-OhHTOehVpTeYaW5U4kiLdFmZe_iDp3v2tLP1mWxEaoDGbTF6IqipXsE3x-2YG5COp_\
    hiWuO63Yb-Qak5bQjP5TkbA5ZyzdzW4etYvjsQus1paoeFCE__9SrQS1XfFiSQII0Jjm-I1p631l6Z_1fjX0SaV151qhXGJbfKRn\
    _WEPNLj1nKY8X2AAC3Mh4phgbzkZ_M4wd5T7354xinqbFIlw3vNCBbrtohI7oj3TZblmF78xlqzxpX9uyUC3Jhx-QctLq0KGN196\
    1g1Wb3wgyFhg9fhmcBBhVY636WE8dqzyAyhXorz8q3BeX3l3P6SoEWJVIzqDtvbxQ1w";
pub(super) const RS512: &str = "\
    eyJhbGciOiJSUzUxMiJ9.e30.U1jt0xr9XbZKuNzVvg90IBqHNb4r9PPHXVOs0lUDkuQvGddtVta4Io7HuxiHNTL2dANktehfWlP\
    5vbqpY25zW8MV-LXIXY09cIb_hTlrhoKu7Gsycz9LcvjMevqTVdLqsPWPtazrv23dNmzJfxA6g2pZ86pMyx7xrpoA8SDRlK-dfE7\
    Xi2ZBP2_lK0_XVYjH5LcFSFilkfx-rz4Qf_-Cw50aO3SREbSS6H6N-JAHe658zwVQ_I2Qe0f8kRrzJXNdNIn9yZu3TaiIpmMtXop\
    ssNscVcIyjrkJjtkMTP8nuCLpJgmgPsKEv-f32rSXPSupq-Ih0BvHEXTWjUuUglATFg";
pub(super) const PS256: &str = "\
    eyJhbGciOiJQUzI1NiJ9.e30.c9IgA9xhkM2ReWKoPmx2mMV-nMrB0EVR6WkL-ZhCwmqwj9YfP66SGajJU6TLgoLtIEn7iBxqtZ1\
    A-fOzSRk9YKGPH9okZPd1ye5XFEVsXAxsJLIkHYRQOnXlk9G_gsIc2BMooRR2AmtG_Alc6D599M9sXepmOi9lmMGqt5w9ylDC7CQ\
    z-wodC87oJgyCA7G1r36vqb6_doXIOiL_mvMUrery-k9fIZpXCgcCZKkOhCEDy0lzYJTtt19gDMQAEAfmUI4om3fOU_qc6X3ew3U\
    iIvWDXD7O5mTFj1jXfq_AcMwuXTql_pkmPGsBlgTvfioYz69TaL_vycjFnZWiaa2Fkg";
pub(super) const PS384: &str = "\
    eyJhbGciOiJQUzM4NCJ9.e30.UcRojWahPpt9w8y6lVOgjqYt0xmwpw9XfmOLM1bsoH_zIwZEsyEfG9wtxAU4s5iKvPV1NeJqYNz\
    PZq6HM76Br0HxZYIEbOG3jZqYPvg9S7LrL3eEB2g4-sM-IfkYSZQTgIFrzbAwY78n7i_UasGoeyB8ObgttsNhby6WuWrDZfGzhXH\
    rvgoMBkccOec0pXtnPOCWQBmRrejDT_v8CAWHutGC00UPN24Oo_fKssbFbi0hQMJg_4DjN1dapncagbGxZSNaEixp2xOnpSPS8kE\
    eIluCGOW77bm024wDBvjAqsgvbgDJ_QP2oJifP0RcOJb7DoTGw0jjDnVLVu-0UH2F7A";
pub(super) const PS512: &str = "\
    eyJhbGciOiJQUzUxMiJ9.e30.ZgtwXfPZnAv3an90GN6R8sipxmlNkutenVbNOjwnbVuwwAzR2t-AsJm2evhK8bzTHW-5kC3Uy9P\
    2Wn6eMsNmbL5g84BFrUtzw7DQxeXp831RWC2_j1SY8oWa9uqTZZ92yiE45318qOWTgenoTvPqzARGRTXYgVOe2QA8oLg3xNaD52v\
    hEQpuJ-srdApD-s1aDRzDvcuf7Yanx1eUAPo3rL5VOSevjAk4HArJF5ur4-qAoWFvcuAxPegRiGHV9XwhnkRm1u1eUyMqpaIAYev\
    yCYCe1y99-F_CF2PktVWDjwSDzuGdjnpeC9k9Y904O3bkzwyRwfcTExTKHPTPpUOJLg";
pub(super) const ES384: &str = "\
    eyJhbGciOiJFUzM4NCJ9.e30.d_YzjC9mwafjUroalTNZvxV-MtjV5PMkLNwJNdSAtRNY-tf_taTvnWfEjyxFfyYlvo3zmHc6EXV\
    TI2EQwIhPza_j48qXBlm7fzcjkYjMltnNKL5_qJAh7xUnOv-C4l8e";
pub(super) const RSA_MODULUS: &str = "\
    u_UYB46deVMsLqxf0JN3R3oZaQfkaqmNcsKw_6uZdtHEjPTtLO8XodIU8HPfI9RgttsPpf84_x1_1JS1FTLNRf1N4u_AboocjeGJ\
    aEiAIhxGLkQC1qpOO5z39I41ZBkfIyQg_xyL2g8BeZTKVt37jwpIipHRl1Yizc6cUz9kyTDTaEZX-gMEM9IhxwvDq1d88QRs8dXn\
    d-ejosBHz3Dq-eFNCT7E4nBlWRzvwKiN3QHgVaVnrr5030IZs2hrHvEEW01Kf3GiUYy-22BYyGtfvav69LDQozeO8ZbY1ULmKFRh\
    kFnppWfEG8ooy0ENrLGLwevBeJUwLbFsZHX0Z597kQ";
pub(super) const ES384_X: &str = "hw03EtxI6yp7FVbDm35LXmeoisq0m6ugTMcSWLdl4vzWx1dn5lfrB4kZ93mrvsy2";
pub(super) const ES384_Y: &str = "2JkFM95L42ULJB1SQaRoav3dS93In6IC3TrcVx2GH4FrUp6UTrWfHQaz5C8GuapB";
